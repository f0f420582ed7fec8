"""What single time steps say, from the step terms of the sweep's runs: detection by stage, weight in the sum, tails."""

import json
from pathlib import Path

import numpy as np
from scipy.stats import kurtosis, rankdata

from benchmarks.noise.sweep import NOISES, Noise
from moso.evaluation.detection import auroc
from moso.evidence_kinds.step_terms import TERMS
from moso.run.job import Job
from moso.run.seed_evidence import SeedEvidence
from moso.scores.moso import agreement


def stages_of(noise: Noise, runs: Path, seed: int) -> dict[str, object]:
    """Return, per sampled step and as means over partitions: AUROC, share of the sum's variance, excess kurtosis.

    Also the AUROC of sums with the learning rates, without them, and of ranks; all inside partitions.
    """
    job = Job.open(runs / f"{noise.folder}-{seed}")
    data = job.data
    assert data.clean_labels is not None
    wrong = data.train.labels != data.clean_labels
    found: dict[str, list[list[float]]] = {"auroc": [], "share": [], "kurtosis": []}
    sums: dict[str, list[float]] = {"moso": [], "without rates": [], "moso-rank": [], "without the largest 1 %": []}
    for positions, terms in zip(job.partitions(seed), SeedEvidence(job, seed).read(TERMS), strict=True):
        values = np.stack([agreement(step) for step in terms.steps])
        rates = np.array([step.learning_rates[0] for step in terms.steps])[:, None]
        own, total = wrong[positions], values.sum(axis=0)
        found["auroc"].append([auroc(-row, own) for row in values])
        found["share"].append([float(np.cov(row, total)[0, 1] / total.var(ddof=1)) for row in values])
        found["kurtosis"].append([float(kurtosis(row)) for row in values])
        limits = np.quantile(np.abs(values), 0.99, axis=1, keepdims=True)
        combined = {
            "moso": total,
            "without rates": (values / rates).sum(axis=0),
            "without the largest 1 %": np.clip(values, -limits, limits).sum(axis=0),
            "moso-rank": np.mean([rankdata(row) for row in values], axis=0),
        }
        for name, score in combined.items():
            sums[name].append(auroc(-score, own))
    steps = {name: np.mean(rows, axis=0).round(4).tolist() for name, rows in found.items()}
    return {
        "noise": noise.name,
        "seed": seed,
        **steps,
        "sums": {name: round(float(np.mean(v)), 4) for name, v in sums.items()},
    }


def write_stages(runs: Path, file: Path, seed: int = 0) -> None:
    """Write the stages of every noise whose run is there, one line each."""
    there = [one for one in NOISES if (runs / f"{one.folder}-{seed}" / "run.toml").exists()]
    file.write_text("".join(f"{json.dumps(stages_of(one, runs, seed))}\n" for one in there), encoding="utf-8")
