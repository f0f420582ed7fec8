"""`drop`: keep more samples of the classes with a high error (DRoP).

Believes that pruning hurts the classes that are already hard, and gives each class a density in proportion to its error
on held-out data, e_k = 1 - recall. Algorithm 1 of the source, for classes of N_k samples:

    d_k = d e_k / Z,   Z = sum_k (N_k / N) e_k;   a class that would exceed 1 is kept whole, and its excess goes to the
    other classes by the same rule, until sum_k d_k N_k is the budget

The quotas d_k N_k are rounded by largest remainders. Inside a class, samples are drawn at random as in the source, or
the highest scores are taken. If the remaining classes have no error at all, they share the rest by size. O(N log N).

Source: Vysogorets, Ahuja & Kempe, DRoP: Distributionally Robust Data Pruning, ICLR 2025, Algorithm 1.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.selection.orders import best_first, rank_in_class, shuffled
from moso.selection.problem import Problem, lacking
from moso.selection.quotas import apportion, check_every_class
from moso.settings import Settings


class DropSettings(Settings):
    """Settings of `drop`: how samples are chosen inside a class."""

    inside: Literal["random", "top"] = Field(
        "random", description="inside a class: at random (the source's), or the highest scores"
    )

    def needs(self) -> frozenset[str]:
        """Return scores if they decide inside a class."""
        return frozenset({"scores"} if self.inside == "top" else ())


def drop(problem: Problem, settings: DropSettings) -> NDArray[np.int64]:
    """Return `budget` positions, with class quotas by class error."""
    labels = problem.labels_for("drop")
    if problem.class_error is None:
        raise lacking("drop", "class-error")
    sizes = np.bincount(labels)
    check_every_class("drop", sizes, problem.budget)
    quotas = apportion(drop_shares(sizes, problem.class_error[: len(sizes)], problem.budget), problem.budget, sizes)
    order = best_first(problem.scores) if settings.inside == "top" else shuffled(problem.keys, problem.seed, "drop")
    return np.flatnonzero(rank_in_class(order, labels) < quotas[labels])


def drop_shares(sizes: NDArray[np.int64], errors: NDArray[np.float64], budget: int) -> NDArray[np.float64]:
    """Compute d_k N_k of every class, not yet rounded.

    Args:
        sizes: Samples per class, shape ``[classes]``.
        errors: Error per class on held-out data, in ``[0, 1]``, shape ``[classes]``.
        budget: Number of samples to keep; the sum of the result.

    Example:
        >>> drop_shares(np.array([10, 10]), np.array([0.1, 0.3]), 12)
        array([3., 9.])
        >>> drop_shares(np.array([10, 10]), np.array([0.1, 0.3]), 16)
        array([ 6., 10.])
    """
    density = np.zeros(len(sizes))
    open_classes = sizes > 0
    excess = float(budget)
    while excess > 1e-9 * budget and open_classes.any():
        weights = np.where(open_classes, errors, 0.0)
        if not (sizes * weights).any():
            weights = open_classes.astype(float)
        density += excess * weights / (sizes * weights).sum()
        excess = float((sizes * np.maximum(density - 1, 0)).sum())
        open_classes &= density < 1
        density = np.minimum(density, 1)
    return np.asarray(sizes * density)
