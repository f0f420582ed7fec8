"""How much of a score is the sample's, and how much the surrogate's? Scores of several seeds, compared and averaged.

Seeds differ in partitions, surrogates, order and time steps: what their scores have in common belongs to the samples.
Says how well the scores of any two runs agree, then keeps samples by the mean of their ranks over all runs, and
retrains that under the seed of every run; what the run's own scores reached stands beside it.
Rows are written as they are done, and never done again.

    python -m benchmarks.averaged_seeds runs/reproduce/cifar100-*-seed-* --ratio 0.8
"""

import argparse
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

import moso
from benchmarks.another_start import read_table, retrained
from moso.experiments.declared.presets import COVERED
from moso.files import write_json
from moso.results.reading import Run
from moso.results.retrainings import all_retrainings
from moso.run.job import Job

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "averaged-seeds.json"
SCORES = ("moso", "moso-rank")
SELECTORS: dict[str, Mapping[str, Any]] = {"balanced": {}, "coverage": COVERED.settings}


def agreement(scores: Sequence[NDArray[np.float64]]) -> float:
    """Mean Spearman over all pairs.

    >>> agreement([np.arange(3.0), np.arange(3.0), np.arange(3.0)])
    1.0
    """
    return float(np.mean([spearmanr(*pair).statistic for pair in combinations(scores, 2)]))


def averaged(scores: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The mean of a sample's ranks, from 0 to 1.

    >>> averaged([np.array([1.0, 5.0]), np.array([2.0, 3.0])])
    array([0., 1.])
    """
    ranks = [rankdata(one) - 1 for one in scores]
    return np.asarray(np.mean(ranks, axis=0) / (len(scores[0]) - 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--ratio", type=float, default=0.8)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    jobs = [Job.open(root) for root in given.runs]
    labels = jobs[0].data.train.labels
    assert all(np.array_equal(job.data.train.labels, labels) for job in jobs), "the runs have other samples or labels"
    for name in SCORES:
        scores = [Run.open(root).scores()[name] for root in given.runs]
        note(given.out, f"agreement of {name}", {"spearman": round(agreement(scores), 3), "runs": len(scores)})
        mean = averaged(scores)
        for selector, settings in SELECTORS.items():
            for job in jobs:
                seed = job.configuration.seed
                key = f"{name}/{selector} at {given.ratio:g}, mean of {len(jobs)} runs, seed {seed}"
                if key in read_table(given.out):
                    continue
                kept = np.zeros(len(labels), dtype=bool)
                about = {"ratio": given.ratio, "seed": seed, "hard": "low", **settings}
                kept[moso.select(mean, labels=labels, selector=selector, **about)] = True
                row = {"own": reached(job, name, selector, given.ratio), "averaged": retrained(job, kept, seed)}
                note(given.out, key, row)


def reached(job: Job, method: str, selector: str, ratio: float) -> float | None:
    """What the run's own scores have led to, with the network that scored."""
    asked = method, selector, ratio, job.configuration.model
    for row in all_retrainings(job.directory.root):
        if (row["method"], row["selector"], row["ratio"], row["network"]) == asked:
            return round(float(row["value"]), 2)
    return None


def note(path: Path, key: str, row: Mapping[str, object]) -> None:
    """Write a row down and say it."""
    write_json(path, {**read_table(path), key: dict(row)})
    print(key, row, flush=True)


if __name__ == "__main__":
    main()
