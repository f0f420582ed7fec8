"""How the two terms of a time step are found: exactly, or by one of the cheaper estimators.

    exact         two sweeps, both terms of every parameter
    subsampled    the mean gradient from a share of the samples; norms inside the share alone
    sketched      one sweep, both terms from random projections of the gradients
    last-layer    one forward pass, both terms of the classifier's parameters alone

All give the same two numbers a sample, so every score works with each of them. What they cost and where they fail is
measured in docs/estimators.md.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.errors import unknown_name
from moso.gradients import (
    Point,
    TimeStep,
    last_layer_time_step,
    sketched_time_step,
    subsampled_time_step,
    time_step,
)
from moso.gradients.point import Groups
from moso.gradients.sketch import NUMBERS
from moso.randomness import hashes, key

EstimatorName = Literal["exact", "subsampled", "sketched", "last-layer"]
IN_RUN = "in-run"
# Share of the samples whose mean gradient stands for that of all.
MEAN_SHARE = 0.2

# From some of a partition's positions to their batches, in this order.
Load = Callable[[NDArray[np.int64]], Iterable[Any]]


@dataclass(frozen=True)
class Estimator:
    """An estimator and its settings; what it draws is addressed by (seed, step), never the same at two steps.

    >>> Estimator("subsampled", mean_share=0.1).name
    'subsampled'
    >>> Estimator("sketchy")
    Traceback (most recent call last):
    ...
    moso.errors.UnknownName: unknown estimator 'sketchy'; nearest: sketched ...
    """

    name: EstimatorName = "exact"
    mean_share: float = MEAN_SHARE
    sketch_numbers: int = NUMBERS
    seed: int = 0

    def __post_init__(self) -> None:
        if str(self.name) == IN_RUN:
            raise errors.SettingsConflict(
                "in-run terms are collected while a surrogate trains (moso run --estimator in-run, or "
                "moso.prune(estimator='in-run')); recorded steps take exact, subsampled, sketched or last-layer"
            )
        if self.name not in get_args(EstimatorName):
            raise unknown_name("estimator", self.name, get_args(EstimatorName))
        if not 0 < self.mean_share <= 1:
            raise errors.SettingInvalid(
                f"mean_share {self.mean_share:g} is outside (0, 1]: it is a share of the samples"
            )

    def time_step(self, point: Point, load: Load, positions: NDArray[np.int64], groups: Groups, step: int) -> TimeStep:
        """The terms of every sample at these positions."""

        def batches() -> Iterable[Any]:
            return load(positions)

        match self.name:
            case "exact":
                return time_step(point, batches, groups)
            case "sketched":
                address = key(self.seed, "sketch", step)
                return sketched_time_step(point, batches, groups, numbers=self.sketch_numbers, seed=address)
            case "last-layer":
                return last_layer_time_step(point, batches, groups)
            case "subsampled":
                inside = self.share(positions, step)
                return subsampled_time_step(point, batches, lambda: load(positions[inside]), inside, groups)

    def share(self, positions: NDArray[np.int64], step: int) -> NDArray[np.bool_]:
        """Which of the positions the mean gradient is taken from at this step, at least two."""
        count = min(len(positions), max(2, round(self.mean_share * len(positions))))
        order = np.argsort(hashes(positions.astype(np.uint64), self.seed, "mean-share", step), kind="stable")
        inside = np.zeros(len(positions), dtype=bool)
        inside[order[:count]] = True
        return inside


def as_estimator(given: "Estimator | EstimatorName") -> Estimator:
    """An estimator by name, with its usual settings, or as it is."""
    return given if isinstance(given, Estimator) else Estimator(given)
