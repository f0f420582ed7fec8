"""Cells of exact leave-one-out: accuracy of the approximation, and its bound, at one rate and number of steps."""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from moso.data.dataset import open_dataset
from moso.exact.leave_one_out import exact_scores
from moso.exact.study import compare_with_approximation
from moso.experiments.declaration import Grid
from moso.experiments.places import find_data
from moso.experiments.provenance import stamp
from moso.experiments.results import Row, key_of
from moso.models import build_model
from moso.progress import Progress, silent
from moso.randomness import hashes
from moso.training.loop import TrainingData, threads
from moso.training.recipe import TrainingRecipe


@dataclass(frozen=True)
class ExactCell:
    """Full-batch gradient descent on a few samples, with leave-one-out retraining for each sample."""

    data: str
    network: str
    rate: float
    steps: int
    seed: int
    samples: int
    label_noise: float

    @property
    def key(self) -> str:
        """The hash of everything that decides the cell's value."""
        return key_of({"exact": asdict(self)})

    @property
    def title(self) -> str:
        """The name for people."""
        return f"{self.network}, {self.steps} steps x {self.rate:g}, seed {self.seed}"


def exact_cells(grid: Grid, seeds: int | None = None) -> list[ExactCell]:
    """Return all cells of a grid, ordered by seed, then by number of steps.

    Args:
        grid: The grid.
        seeds: Number of seeds; by default the grid's own number.

    Example:
        >>> [cell.title for cell in exact_cells(Grid("digits", ("linear",), (0.1,), (5, 20), seeds=1))]
        ['linear, 5 steps x 0.1, seed 0', 'linear, 20 steps x 0.1, seed 0']
    """
    return list(_cells(grid, grid.seeds if seeds is None else seeds))


def _cells(grid: Grid, seeds: int) -> Iterator[ExactCell]:
    for seed in range(seeds):
        for steps in grid.steps:
            for network in grid.networks:
                for rate in grid.rates:
                    yield ExactCell(grid.data, network, rate, steps, seed, grid.samples, grid.label_noise)


def exact_row(cell: ExactCell, data: Path, progress: Progress = silent) -> Row:
    """Run a cell and return its row of the table: leave-one-out scores against their approximations."""
    started = time.monotonic()
    found = find_data(cell.data, data)
    train = open_dataset(found.dataset, labels=found.labels, label_noise=cell.label_noise, seed=cell.seed).train
    positions = np.sort(np.argsort(hashes(train.keys, cell.seed, "exact-samples"), kind="stable")[: cell.samples])
    recipe = TrainingRecipe(
        epochs=cell.steps, batch_size=len(positions), learning_rate=cell.rate, schedule="constant", momentum=0.0
    )
    view = train.evaluation_view()
    model = build_model(cell.network, train.shape, len(train.classes), cell.seed)
    with threads(1):
        exact = exact_scores(
            model,
            TrainingData(view, positions, train.keys),
            recipe,
            seed=cell.seed,
            total_steps=cell.steps,
            evaluation_view=view,
            progress=progress,
        )
        compared = compare_with_approximation(model, exact, view, positions, seed=cell.seed)
    return {
        "key": cell.key,
        **asdict(cell),
        "spearman": {name: round(one.value, 4) for name, one in compared.spearman.items()},
        "relative_error": {name: round(one.relative, 4) for name, one in compared.errors.items()},
        "largest_error": max(one.largest for one in compared.errors.values()),
        "bound": compared.bound.value,
        "positive": round(float((exact.scores > 0).mean()), 4),
        "seconds": {"exact": round(time.monotonic() - started, 1)},
        "threads": 1,
        **stamp(),
    }
