"""Does knowing the optimiser rank samples better? Plain and optimizer-aware MoSo against exact leave-one-out, AdamW.

For every seed a small network is trained with AdamW on some digits, once on all samples and once without each of them
(Definition 1, `moso.exact`), in float64. The trajectory of the first training is scored twice. Spearman correlations
with the exact scores, the difference seed by seed, and Student's 95 % interval of its mean are written down.

    python -m benchmarks.language.optimizer_aware --seeds 10
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr, t

from moso.data.dataset import open_dataset
from moso.evidence import PartitionTerms, step_terms
from moso.exact.leave_one_out import exact_scores
from moso.exact.left_out import choose_samples
from moso.exact.stacked_models import at_precision
from moso.files import write_json
from moso.gradients import cross_entropy
from moso.models import build_model
from moso.scores import moso_rank_score, moso_score
from moso.training.loop import TrainingData
from moso.training.recipe import TrainingRecipe

OUT = Path(__file__).parents[2] / "docs" / "benchmarks" / "optimizer-aware.json"
SETTINGS: dict[str, dict[str, Any]] = {
    "digits, softmax regression, full batches, 40 steps": {"model": "linear", "batch": 100, "steps": 40, "rate": 1e-3},
    "digits, softmax regression, batches of 20, 100 steps": {
        "model": "linear",
        "batch": 20,
        "steps": 100,
        "rate": 1e-3,
    },
    "digits, 16 tanh units, full batches, 40 steps": {"model": "tanh", "batch": 100, "steps": 40, "rate": 3e-3},
    "digits, 16 tanh units, batches of 20, 100 steps": {"model": "tanh", "batch": 20, "steps": 100, "rate": 3e-3},
}
SAMPLES = 100


def one_seed(seed: int, setting: dict[str, Any]) -> dict[str, float]:
    """Return the Spearman correlations of one seed with exact leave-one-out."""
    train = open_dataset("digits").train
    positions = choose_samples(train, SAMPLES, seed, np.array([], dtype=np.int64))
    model = build_model(setting["model"], train.shape, train.task.outputs, seed)
    recipe = TrainingRecipe(
        optimizer="adamw", epochs=-(-setting["steps"] * setting["batch"] // SAMPLES), batch_size=setting["batch"],
        learning_rate=setting["rate"], schedule="constant",
    )  # fmt: skip
    data = TrainingData(train.evaluation_view(), positions, train.keys)
    exact = exact_scores(model, data, recipe, seed=seed, total_steps=setting["steps"], dtype=torch.float64)
    network, loss = at_precision(model, cross_entropy, torch.float64)
    found = {}
    for name, trajectory in (("plain", exact.trajectory), ("aware", exact.trajectory.optimizer_aware())):
        terms = [step_terms(network, point, data.view, positions, loss=loss, batch_size=100) for point in trajectory]
        whole = PartitionTerms(trajectory.total_steps, terms)
        for score, values in (("moso", moso_score(whole)), ("moso-rank", moso_rank_score(whole))):
            rows = np.searchsorted(np.sort(positions), exact.left_out)
            assert (np.sort(positions) == positions).all()
            found[f"{score} {name}"] = float(spearmanr(exact.scores, values[rows]).statistic)
    return found


def summary(rows: list[dict[str, float]]) -> dict[str, Any]:
    """Return means over seeds, and the paired difference of aware and plain with its 95 % interval."""
    found: dict[str, Any] = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    for score in ("moso", "moso-rank"):
        differences = np.array([row[f"{score} aware"] - row[f"{score} plain"] for row in rows])
        half = float(t.ppf(0.975, len(rows) - 1) * differences.std(ddof=1) / len(rows) ** 0.5)
        found[f"{score} difference"] = [float(differences.mean()), half]
    return found


def main() -> None:
    """Run all settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        rows = [one_seed(seed, setting) for seed in range(given.seeds)]
        results[name] = {**summary(rows), "seeds": given.seeds, "rows": rows}
        shown = {key: value for key, value in results[name].items() if key != "rows"}
        print(name, {key: np.round(value, 3).tolist() for key, value in shown.items()}, flush=True)
    write_json(given.out, {"samples": SAMPLES, "settings": results})


if __name__ == "__main__":
    main()
