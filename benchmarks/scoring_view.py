"""What the mean gradient knows of wrong labels, by how samples and batch-norm are seen while they are scored.

Takes runs with label noise that were trained (`moso train` is enough) and asks, at recorded time steps of the first
partition: does a sample's gradient disagree with the mean gradient where its label is wrong? Samples as they are or as
the epoch augmented them, batch-norm's statistics as training left them or renewed over just these samples
(docs/view.md). Rows are written as they are done.

    python -m benchmarks.scoring_view runs/noisy --out docs/benchmarks/scoring-view.json
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from moso.evaluation.detection import detection
from moso.evidence import Trajectory, step_terms
from moso.evidence.layout import part_name
from moso.evidence.renewed_statistics import renewed_statistics
from moso.files import write_json
from moso.run.job import Job

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "scoring-view.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--every", type=int, default=3, help="take every so many of the recorded time steps")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for root in given.runs:
        _measure(Job.open(root), given.every, given.out)


def _measure(job: Job, every: int, out: Path) -> None:
    c, train = job.configuration, job.data.train
    if job.data.clean_labels is None:
        raise SystemExit(f"{job.directory.root} has no labels that are known to be wrong; train it with --label-noise")
    positions = job.partitions(c.seed)[0]
    wrong = (job.data.clean_labels != train.labels)[positions]
    model, recipe = job.model(c.seed), c.surrogate
    for point in list(Trajectory.open(job.directory.root / "trajectory" / part_name(0)))[::every]:
        views = {
            "as they are": train.evaluation_view(),
            "as augmented": train.training_view(recipe.augmentation, c.seed),
        }
        for samples, view in views.items():
            renewed = renewed_statistics(model, point, view, positions, batch_size=recipe.batch_size, loss=job.loss)
            for statistics, at in (("as recorded", point), ("renewed", renewed)):
                key = f"{c.surrogate.epochs} epochs, step {point.step}, samples {samples}, statistics {statistics}"
                rows = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
                if key in rows:
                    continue
                terms = step_terms(model, at, view, positions, loss=job.loss)
                dot, norm = terms.dot[0], terms.squared_norm[0]
                rows[key] = {
                    **{"epochs": c.surrogate.epochs, "step": point.step, "samples": samples, "statistics": statistics},
                    "auroc": round(detection("moso", -dot, wrong).auroc, 3),
                    "auroc_of_norm": round(detection("norm", norm, wrong).auroc, 3),
                    "squared_mean_gradient": float(f"{dot.mean():.3g}"),
                    "partition": len(positions),
                    "label_noise": c.label_noise,
                    "wrong": round(float(np.mean(wrong)), 3),
                }
                write_json(out, rows)
                print(key, rows[key]["auroc"], rows[key]["squared_mean_gradient"], flush=True)


if __name__ == "__main__":
    main()
