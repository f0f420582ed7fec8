"""Quotas: how many samples of each class are kept, computed from the class sizes, exact to the sample."""

import heapq
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moso import errors

Quotas = Literal["balanced", "proportional"]
Counts = NDArray[np.int64]


def check_every_class(selector: str, sizes: Counts, budget: int) -> None:
    """Check that a class-wise selector can keep at least one sample of every class.

    Raises:
        BudgetImpossible: The budget is smaller than the number of classes.
    """
    classes = int((sizes > 0).sum())
    if budget < classes:
        raise errors.BudgetImpossible(
            f"selector {selector!r} goes class by class, but only {budget} of {int(sizes.sum())} samples are to stay "
            f"and there are {classes} classes; choose a smaller ratio, or selector 'top'"
        )


def balanced_quotas(sizes: Counts, budget: int) -> Counts:
    """Divide the budget equally among classes, to within one sample.

    The share that a small class cannot fill goes to the other classes; remainders go to the first classes.

    Args:
        sizes: Samples per class, shape ``[classes]``.
        budget: Number of samples to keep.

    Example:
        >>> balanced_quotas(np.array([2, 9, 9]), 11)
        array([2, 5, 4])
    """
    low, high = 0, int(sizes.max())
    while low < high:  # bisection for the largest quota of all classes that the budget allows
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(sizes, middle).sum() <= budget else (low, middle - 1)
    quotas = np.minimum(sizes, low)
    more = np.flatnonzero(sizes > low)[: budget - int(quotas.sum())]
    quotas[more] += 1
    return quotas


def proportional_quotas(sizes: Counts, budget: int) -> Counts:
    """Divide the budget in proportion to class sizes.

    The method is that of Sainte-Laguë: a class gets its r-th sample (from 0) at the share (r + 1/2) / size.

    Args:
        sizes: Samples per class, shape ``[classes]``.
        budget: Number of samples to keep.

    Example:
        >>> proportional_quotas(np.array([10, 20, 30]), 7)
        array([1, 2, 4])
    """
    low, high = 0.0, 1.0
    for _ in range(60):  # bisection for the largest share of every class that stays within the budget
        middle = (low + high) / 2
        low, high = (middle, high) if np.floor(middle * sizes + 0.5).sum() <= budget else (low, middle)
    # Take one sample back from every class, in case rounding gave one too early; a heap assigns the rest one by one.
    quotas = np.maximum(np.floor(low * sizes + 0.5).astype(np.int64) - 1, 0)
    waiting = [((quotas[c] + 0.5) / sizes[c], c) for c in np.flatnonzero(sizes > quotas)]
    heapq.heapify(waiting)
    for _ in range(budget - int(quotas.sum())):
        _, c = heapq.heappop(waiting)
        quotas[c] += 1
        if quotas[c] < sizes[c]:
            heapq.heappush(waiting, ((quotas[c] + 0.5) / sizes[c], c))
    return np.asarray(quotas)


def class_quotas(sizes: Counts, budget: int, how: Quotas) -> Counts:
    """Return the balanced or proportional quota of each class, shape ``[classes]``."""
    return balanced_quotas(sizes, budget) if how == "balanced" else proportional_quotas(sizes, budget)


def apportion(shares: NDArray[np.float64], budget: int, room: Counts) -> Counts:
    """Round `shares` to whole numbers that sum to `budget`, by largest remainders.

    Args:
        shares: Wanted number per class, not rounded, shape ``[classes]``.
        budget: The sum of the result.
        room: Upper bound per class.

    Example:
        >>> apportion(np.array([1.5, 2.5, 3.0]), 7, np.array([9, 9, 9]))
        array([2, 2, 3])
    """
    quotas = np.minimum(np.floor(shares + 1e-9).astype(np.int64), room)
    while missing := budget - int(quotas.sum()):
        remainder = np.where(quotas < room, shares - quotas, -np.inf)
        chosen = np.argsort(-remainder, kind="stable")[: min(missing, int((quotas < room).sum()))]
        quotas[chosen] += 1
    return quotas
