"""Does what a run keeps serve a network that starts elsewhere? Selections retrained under a seed of their own.

`moso run` retrains under the seed of the whole pipeline: with the surrogate's network also from its initial weights,
in its order of samples, with its augmentations. A score that knows one training very well, as the adjoint does, may
keep what serves that very training. Here each selection of some runs is retrained from another start; what it reached
from the surrogate's own stands beside it. Rows are written as they are done, and never done again.

    python -m benchmarks.another_start runs/reproduce/cifar100-* --only moso-adjoint/balanced --only random/balanced
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from moso.evaluation.metrics import measured
from moso.files import write_json
from moso.results.retrainings import all_retrainings
from moso.results.selections import all_selections, read_selection
from moso.run.job import Job
from moso.training.loop import StepPlan, train

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "another-start.json"
START = 1000  # added to a run's seed


def retrained(job: Job, kept: np.ndarray, seed: int) -> float:
    """Test accuracy in % of a fresh network trained on what is kept, all draws under this seed."""
    recipe, test = job.configuration.retraining, job.data.test
    assert test is not None, "experiments have a test split"
    model = job.model(seed)
    train(model, StepPlan(job.training_data(recipe, np.flatnonzero(kept), seed), recipe, seed), loss=job.loss)
    values = measured(model, test.evaluation_view(), np.arange(len(test)), job.metric)
    return round(100 * float(values.mean()), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--only", action="append", help="METHOD/SELECTOR; may be repeated")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for root in given.runs:
        job = Job.open(root)
        own = {
            (row["method"], row["selector"], row["ratio"], row["seed"]): row["value"] for row in all_retrainings(root)
        }
        for one in all_selections(root):
            name = f"{one.method}/{one.selector}"
            about = one.method, one.selector, one.ratio, one.seed
            key = f"{name} at {one.ratio:g}, {job.configuration.risk} risk, seed {one.seed}"
            if about not in own or (given.only and name not in given.only) or key in read_table(given.out):
                continue
            row = {
                **{"method": one.method, "selector": one.selector, "ratio": one.ratio, "seed": one.seed},
                "risk": job.configuration.risk,
                "own_start": round(own[about], 2),
                "another_start": retrained(job, read_selection(root, one), START + one.seed),
            }
            write_json(given.out, {**read_table(given.out), key: row})
            print(key, row["own_start"], row["another_start"], flush=True)


def read_table(path: Path) -> dict[str, dict[str, object]]:
    """The rows that are done, by what they are."""
    found: dict[str, dict[str, object]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


if __name__ == "__main__":
    main()
