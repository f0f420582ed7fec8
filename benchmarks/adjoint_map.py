"""Where scores can be trusted: N x rate x steps x smoothness x batch-norm, each run with every sample really left out.

For every cell: Spearman of each approximation with exact leave-one-out (Definition 1, float64), and the linear
datamodeling score: Spearman, over random subsets of a tenth of the samples left out together, of the sum of their
scores with the true change of risk. Rows are written as they are done; a run that was stopped goes on.

    python -m benchmarks.adjoint_map                     # all cells; one thread
    python -m benchmarks.adjoint_map --only tanh-200     # cells whose name begins so
    python -m benchmarks.adjoint_map --only tanh-norm-200-100x0.1 --probes 16 --out more-probes.json
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import nn

from benchmarks.adjoint_rivals import RIVALS
from moso.adjoint import Replay, ReplayRecorder, adjoint_sweep
from moso.data.label_noise import add_label_noise
from moso.data.samples import StoredSamples
from moso.evidence import PartitionTerms, Trajectory, step_terms
from moso.exact.leave_one_out import exact_scores
from moso.exact.stacked_models import StackedModels, at_precision
from moso.files import write_json
from moso.gradients import cross_entropy
from moso.models import build_model
from moso.randomness import generator, hashes, reseed, seeded
from moso.scores import moso_score
from moso.training.loop import StepPlan, TrainingData, train
from moso.training.recipe import TrainingRecipe

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "adjoint-map.json"
PROBES = 8
SUBSETS = 48
# The exact self term is an adjoint a sample, each of all samples: only where squared samples x steps are no more, and
# three times that where training is gentle enough for a figure to be asked of it.
EXACT_SELF = 4_000_000
GENTLE = 10
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """One run to be left out of."""

    network: str
    samples: int
    rate: float
    steps: int
    batch: int = 0
    momentum: float = 0.0
    seed: int = 0

    @property
    def name(self) -> str:
        """How its row is found again."""
        batch = f"-b{self.batch}m{self.momentum:g}" if self.batch else ""
        return f"{self.network}-{self.samples}-{self.steps}x{self.rate:g}{batch}-s{self.seed}"


def cells() -> Iterator[Cell]:
    """The map, the most telling cells first."""
    short, long, high, rough = (0.1, 20), (0.1, 100), (0.5, 20), (0.5, 100)
    for network in ("softmax", "tanh", "relu"):
        yield from (Cell(network, 200, rate, steps) for rate, steps in (short, long, rough))
    for network in ("tanh-norm", "relu-norm"):
        yield Cell(network, 200, *short)
        yield Cell(network, 200, 0.02, 140, batch=32, momentum=0.9)
    for network in ("softmax", "tanh", "relu"):
        yield from (Cell(network, 60, rate, steps) for rate, steps in (short, long, rough))
    yield Cell("tanh", 200, 0.02, 140, batch=32, momentum=0.9)
    yield from (Cell(network, 200, *high) for network in ("softmax", "tanh", "relu"))
    for network in ("tanh-norm", "relu-norm"):
        yield from (Cell(network, 200, rate, steps) for rate, steps in (long, high, rough))
    for network in ("tanh", "relu"):
        yield Cell(network, 200, 0.1, 400)
        yield Cell(network, 500, *long)


def build(cell: Cell) -> nn.Module:
    """16 hidden units, or 4 filters, with or without batch-norm."""
    if cell.network == "softmax":
        return build_model("linear", (1, 8, 8), classes=10, seed=cell.seed)
    bend = nn.Tanh() if cell.network.startswith("tanh") else nn.ReLU()
    with seeded(cell.seed, "adjoint-map"):
        if cell.network.endswith("-norm"):
            first = [nn.Conv2d(1, 4, 3, stride=2, bias=False), nn.BatchNorm2d(4), bend, nn.Flatten(), nn.Linear(36, 10)]
            return nn.Sequential(*first)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), bend, nn.Linear(16, 10))


def data_of(cell: Cell) -> TrainingData:
    """Digits with pixels in 0..1 and a tenth of the labels drawn at random."""
    loaded = load_digits()
    samples = StoredSamples.from_arrays(loaded.images[:, None].astype(np.float32) / 16, loaded.target)
    samples = samples.take(np.argsort(hashes(samples.keys, cell.seed, "adjoint-map"))[: cell.samples])
    noisy, _ = add_label_noise(samples.labels, samples.keys, 10, 0.1, cell.seed)
    return TrainingData(samples.relabelled(noisy).evaluation_view(), np.arange(cell.samples), samples.keys)


def measured(cell: Cell, probes: int = PROBES) -> dict[str, Any]:
    """One row of the map."""
    started = time.perf_counter()
    data, model = data_of(cell), build(cell)
    batch = cell.batch or cell.samples
    recipe = TrainingRecipe(
        epochs=-(-cell.steps // data.steps_per_epoch(batch)),
        batch_size=batch,
        learning_rate=cell.rate,
        schedule="cosine" if cell.batch else "constant",
        momentum=cell.momentum,
    )
    exact = exact_scores(model, data, recipe, seed=cell.seed, total_steps=cell.steps, dtype=torch.float64)
    scores = {**_moso(model, data, exact.trajectory), **_adjoint(cell, model, data, recipe, probes)}
    refused = {}
    inputs, labels = data.view.batch(data.positions)
    for name, rival in RIVALS.items():
        try:
            scores[name] = rival(build(cell), _in_float32(exact.trajectory), inputs, labels)
        except Exception as problem:  # noqa: BLE001 - other people's code may fail as it likes: the row says how
            refused[name] = f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}"
    left_out, change = _left_out_together(cell, model, data, recipe)
    return {
        **asdict(cell),
        "spearman": {name: _rank(values, exact.scores) for name, values in scores.items()},
        "lds": {name: _rank(left_out @ values, change) for name, values in scores.items()},
        "positive": exact.positive_share,
        "refused": refused,
        "seconds": round(time.perf_counter() - started, 1),
    }


def _moso(model: nn.Module, data: TrainingData, trajectory: Trajectory) -> dict[str, Array]:
    network, loss = at_precision(model, cross_entropy, torch.float64)
    steps = [step_terms(network, point, data.view, data.positions, loss=loss, batch_size=256) for point in trajectory]
    terms = PartitionTerms(trajectory.total_steps, steps)
    return {"moso": moso_score(terms, "paper"), "centred": moso_score(terms, "centred")}


def _adjoint(cell: Cell, model: nn.Module, data: TrainingData, recipe: TrainingRecipe, probes: int) -> dict[str, Array]:
    start, loss = at_precision(model, cross_entropy, torch.float64)
    trained, _ = at_precision(model, cross_entropy, torch.float64)
    with tempfile.TemporaryDirectory() as folder:
        recorder = ReplayRecorder(Path(folder), cell.steps)
        train(trained, StepPlan(data, recipe, cell.seed, cell.steps), loss=loss, callbacks=[recorder])
        replay = Replay(Path(folder), start, data, recipe, cell.seed, cell.steps, loss)
        probed = adjoint_sweep(replay, probes=probes)
        found = {"adjoint": probed.change, f"adjoint-{probes}-probes": probed.scores()}
        found["unshrunk"] = replace(probed, own_variance=None).scores()
        if _affordable(cell):
            found["adjoint-self"] = adjoint_sweep(replay, probes=cell.samples).scores()
    return found


def _affordable(cell: Cell) -> bool:
    cost = cell.samples**2 * cell.steps * (3 if cell.network.endswith("-norm") else 1)
    return cost <= EXACT_SELF * (3 if not cell.batch and cell.rate * cell.steps <= GENTLE else 1)


def _left_out_together(cell: Cell, model: nn.Module, data: TrainingData, recipe: TrainingRecipe) -> tuple[Array, Array]:
    """Random tenths of the samples, `[subsets, samples]`, and what leaving each out does to the risk of all."""
    network, loss = at_precision(model, cross_entropy, torch.float64)
    size = max(1, cell.samples // 10)
    out = np.zeros((SUBSETS + 1, cell.samples))  # the last one leaves nobody out
    for row in range(SUBSETS):
        out[row, generator(cell.seed, "left-out", row).choice(cell.samples, size, replace=False)] = 1.0
    networks = StackedModels(network, loss, SUBSETS + 1, recipe)
    with seeded(cell.seed, "training"):
        for step, batch in StepPlan(data, recipe, cell.seed, cell.steps).walk(range(1, cell.steps + 1)):
            weights = 1 - out[:, step.positions]
            weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1)
            reseed(cell.seed, "update", step.number)
            networks.step(batch, torch.from_numpy(weights), step.rate)
    risks = networks.losses(data.view.batch(data.positions)).mean(dim=1).numpy()
    return out[:-1], risks[:-1] - risks[-1]


def _in_float32(trajectory: Trajectory) -> list[Any]:
    def narrow(value: torch.Tensor) -> torch.Tensor:
        return value.float() if value.is_floating_point() else value

    return [
        replace(point, memory={name: narrow(value) for name, value in point.state().items()}) for point in trajectory
    ]


def _rank(one: Array, other: Array) -> float:
    return round(float(scipy.stats.spearmanr(one, other).statistic), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cells whose name begins so")
    parser.add_argument("--probes", type=int, default=PROBES, help="the table's is 8; give another --out with others")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, Any] = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    for cell in cells():
        if cell.name in rows or not cell.name.startswith(given.only):
            continue
        rows[cell.name] = measured(cell, given.probes)
        write_json(given.out, rows)
        print(cell.name, rows[cell.name]["spearman"], rows[cell.name]["lds"], rows[cell.name]["refused"], flush=True)


if __name__ == "__main__":
    main()
