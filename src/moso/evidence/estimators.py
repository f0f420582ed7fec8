"""How the two terms of a time step are computed: exactly, or by a cheaper estimator.

    exact         two sweeps, both terms over every parameter
    subsampled    the mean gradient from a share of the samples; norms for samples in the share only
    sketched      one sweep, both terms from random projections of the gradients
    last-layer    one forward pass, both terms over the classifier's parameters only

All estimators return the same two numbers per sample, so every score works with each of them. docs/estimators.md has
measurements of their costs and of where they fail.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.batch import Batch
from moso.errors import unknown_name
from moso.gradients import (
    Point,
    TimeStep,
    last_layer_time_step,
    sketched_time_step,
    subsampled_time_step,
    time_step,
)
from moso.gradients.estimates.sketch import NUMBERS
from moso.gradients.point import Groups
from moso.randomness import hashes, key

EstimatorName = Literal["exact", "subsampled", "sketched", "last-layer"]
IN_RUN = "in-run"
# Share of the samples whose mean gradient approximates the mean gradient of all.
MEAN_SHARE = 0.2

# Maps some of a partition's positions to batches of their samples, in the same order.
Load = Callable[[NDArray[np.int64]], Iterable[Batch]]


@dataclass(frozen=True)
class Estimator:
    """An estimator and its settings; its random draws are seeded by (seed, step), so two steps never share a draw.

    Attributes:
        name: Which estimator.
        mean_share: Share of the samples, in (0, 1], that `subsampled` takes the mean gradient from.
        sketch_numbers: Numbers per projected gradient of `sketched`.
        seed: Seed of the random draws.

    Raises:
        UnknownName: There is no estimator of this name.
        SettingInvalid: `mean_share` is outside (0, 1].
        SettingsConflict: The name is `in-run`, whose terms are collected during training only.

    Example:
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
                "in-run terms are collected while a surrogate trains (estimator 'in-run' of moso run and "
                "moso.prune); recorded steps take exact, subsampled, sketched or last-layer"
            )
        if self.name not in get_args(EstimatorName):
            raise unknown_name("estimator", self.name, get_args(EstimatorName))
        if not 0 < self.mean_share <= 1:
            raise errors.SettingInvalid(
                f"mean_share {self.mean_share:g} is outside (0, 1]: it is a share of the samples"
            )

    def time_step(self, point: Point, load: Load, positions: NDArray[np.int64], groups: Groups, step: int) -> TimeStep:
        """Return the two terms of every sample at `positions`.

        Args:
            point: The network at the time step.
            load: Maps positions to batches.
            positions: Positions of the partition's samples, shape `[samples]`.
            groups: Parameter names per parameter group.
            step: Number of the time step, which seeds the draws.
        """

        if point.metric and self.name in ("sketched", "last-layer"):
            raise errors.SettingsConflict(
                f"estimator {self.name!r} does not know the optimiser's preconditioner; optimizer-aware scores take "
                "estimator 'exact' or 'subsampled'"
            )

        def batches() -> Iterable[Batch]:
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
        """Return a mask over `positions`: the samples, at least two, of the mean gradient at this step."""
        count = min(len(positions), max(2, round(self.mean_share * len(positions))))
        order = np.argsort(hashes(positions.astype(np.uint64), self.seed, "mean-share", step), kind="stable")
        inside = np.zeros(len(positions), dtype=bool)
        inside[order[:count]] = True
        return inside


def as_estimator(given: "Estimator | EstimatorName") -> Estimator:
    """Return an estimator with default settings for a name; return an estimator as it is."""
    return given if isinstance(given, Estimator) else Estimator(given)
