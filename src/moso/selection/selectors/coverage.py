"""`coverage`: cut off the hardest samples, then cover the range of the remaining scores evenly (CCS).

Believes that a subset needs both easy and hard samples, and that the very hardest samples are mostly mislabelled.
Algorithm 1 of the source, for N samples and budget m:

    drop the floor(cut * N) hardest; split the range of the scores that are left into `strata` of equal width;
    from the stratum with the fewest samples to the one with the most, draw at random
        min(its size, floor(m / strata still to come)),   m <- m - what was drawn

`hard` names the hard end of the scores: the high end for errors (EL2N), the low end for margins (AUM), and the low end
for MoSo, whose lowest scores are mostly mislabelled samples. With `classes = "balanced"`, cut and strata apply within
each class: `cut = 0.3` on `moso-rank` is the variant that beat random selection on CIFAR-100 at 80 % removed. If the
ratio is below `cut`, only the samples to be removed are cut, so the budget stays exact. O(N log N).

Source: Zheng et al., Coverage-centric Coreset Selection for High Pruning Rates, ICLR 2023, Algorithm 1. The source
tunes `cut` for each data set and ratio; 0.3 is the authors' example, and 50 strata are their choice throughout.
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.selection.classes import ClassSettings, per_class
from moso.selection.orders import best_first, rank_in_class, shuffled
from moso.selection.problem import Problem


class CoverageSettings(ClassSettings):
    """Settings of `coverage`: share cut off, and strata."""

    cut: float = Field(0.3, ge=0, lt=1, description="share of the samples, the hardest, that is dropped first")
    strata: int = Field(50, ge=1, description="stretches the range of scores is divided into")
    by: Literal["score", "rank"] = Field(
        "score", description="strata of equal width in score (the source's), or in rank"
    )

    def needs(self) -> frozenset[str]:
        """Return the hard end if anything is cut, and labels if the selection is class-wise."""
        return super().needs() | (frozenset({"hard"}) if self.cut > 0 else frozenset())


def coverage(problem: Problem, settings: CoverageSettings) -> NDArray[np.int64]:
    """Return `budget` positions, spread evenly over the scores that remain after the cut."""
    problem.finite_scores("coverage")
    return per_class(problem, "coverage", settings.classes, lambda part: _cover(part, settings))


def _cover(problem: Problem, settings: CoverageSettings) -> NDArray[np.int64]:
    cut = min(math.floor(settings.cut * len(problem) + 1e-9), len(problem) - problem.budget)
    hardest_first = best_first(problem.scores if problem.hard == "high" else -problem.scores)
    pool = np.sort(hardest_first[cut:])
    values = problem.scores[pool]
    if settings.by == "rank":
        values = rank_in_class(np.argsort(values, kind="stable"), np.zeros(len(pool), dtype=np.int64)).astype(float)
    stratum = strata_of(values, settings.strata)
    budgets = strata_budgets(np.bincount(stratum, minlength=settings.strata), problem.budget)
    drawn = rank_in_class(shuffled(problem.keys[pool], problem.seed, "coverage"), stratum)
    return pool[drawn < budgets[stratum]]


def strata_of(values: NDArray[np.float64], strata: int) -> NDArray[np.int64]:
    """Return the index of each value's stratum, shape ``[samples]``.

    Strata are `strata` intervals of equal width from the lowest value to the highest.

    Example:
        >>> strata_of(np.array([0.0, 0.4, 0.5, 1.0]), 2)
        array([0, 0, 1, 1])
    """
    low, width = values.min(), np.ptp(values)
    if width == 0:
        return np.zeros(len(values), dtype=np.int64)
    return np.asarray(np.minimum((values - low) / width * strata, strata - 1), dtype=np.int64)


def strata_budgets(sizes: NDArray[np.int64], budget: int) -> NDArray[np.int64]:
    """Return how many samples are drawn from each stratum: as equal as the sizes allow, smallest stratum first.

    Example:
        >>> strata_budgets(np.array([1, 10, 0, 10]), 9)
        array([1, 4, 0, 4])
    """
    budgets = np.zeros_like(sizes)
    left = budget
    for place, stratum in enumerate(np.argsort(sizes, kind="stable")):
        budgets[stratum] = min(int(sizes[stratum]), left // (len(sizes) - place))
        left -= int(budgets[stratum])
    return budgets
