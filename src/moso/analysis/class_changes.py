"""What a selection does to single classes: their accuracy after retraining, beside that of training on all data.

The mean hides a class: 1.6 points more overall went with a class that fell from 78.8 to 41.3 %. A class has few test
samples, and the worst of many classes falls by several points by chance alone. So every change has a margin: half the
width of the one-sided Agresti-Caffo interval of a difference of two proportions, over the counts of all common seeds,
widened for the number of classes (Bonferroni). A class is *harmed* if it falls by more than tolerance and margin.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from moso.evaluation.paired import COVERAGE


@dataclass(frozen=True)
class ClassChange:
    """The accuracy of one class on all data and on the kept samples, in %, over the seeds that both have.

    Attributes:
        name: Name of the class.
        before: Accuracy of training on all data.
        after: Accuracy of training on the kept samples.
        margin: Fall in points that chance explains, given the number of test samples and of classes.
        test_samples: Number of test samples of the class.
    """

    name: str
    before: float
    after: float
    margin: float
    test_samples: int

    @property
    def change(self) -> float:
        """Points that the class gained; negative if it lost."""
        return self.after - self.before

    def is_harm(self, tolerance: float) -> bool:
        """Return whether the class falls by more than the tolerance and chance together explain."""
        return self.change < -(tolerance + self.margin)

    def to_dict(self) -> dict[str, Any]:
        """Return the change as plain values."""
        names = ("name", "before", "after", "change", "margin", "test_samples")
        return {name: getattr(self, name) for name in names}


def class_changes(
    own: Iterable[Mapping[str, Any]], full: Iterable[Mapping[str, Any]], names: Sequence[str]
) -> list[ClassChange]:
    """Return the change of every class that has test samples, in the order of `names`.

    Args:
        own: The retrainings on the kept samples, one mapping per seed, with `seed`, `class_correct`, `class_count`.
        full: The retrainings on all data.
        names: Names of the classes.

    Returns:
        One change per class; empty if right answers were not counted per class, or no seed is common.

    Example:
        >>> kept, everything = (
        ...     {"seed": 0, "class_correct": right, "class_count": [80, 80]} for right in ([33, 79], [63, 70])
        ... )
        >>> [
        ...     (one.name, one.before, one.after, one.is_harm(1.0))
        ...     for one in class_changes([kept], [everything], ["cat", "dog"])
        ... ]
        [('cat', 78.75, 41.25, True), ('dog', 87.5, 98.75, False)]
    """
    mine, theirs = (
        {cell["seed"]: cell for cell in cells if cell.get("class_correct") is not None} for cells in (own, full)
    )
    seeds = sorted(mine.keys() & theirs.keys())
    if not seeds:
        return []
    after, before = (np.sum([one[seed]["class_correct"] for seed in seeds], axis=0) for one in (mine, theirs))
    counts = np.sum([mine[seed]["class_count"] for seed in seeds], axis=0)
    tested = [index for index in range(len(names)) if counts[index]]
    quantile = NormalDist().inv_cdf(1 - (1 - COVERAGE) / max(1, len(tested)))
    found = []
    for index in tested:
        count, right = int(counts[index]), (int(before[index]), int(after[index]))
        # Agresti and Caffo: one more right and one more wrong answer on either side, so that 1 of 1 has a variance.
        shares = [(one + 1) / (count + 2) for one in right]
        error = math.sqrt(sum(share * (1 - share) for share in shares) / (count + 2))
        was, now = (100 * one / count for one in right)
        found.append(ClassChange(str(names[index]), was, now, 100 * quantile * error, count // len(seeds)))
    return found


def worst_change(changes: Iterable[ClassChange], tolerance: float) -> ClassChange | None:
    """Return the class that loses most, of those that are harmed if there are any; None without classes."""
    found = list(changes)
    harmed = [one for one in found if one.is_harm(tolerance)]
    return min(harmed or found, key=lambda one: one.change, default=None)
