"""How many samples of each class stay, exact to the sample, from nothing but the classes' sizes."""

import heapq
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moso import errors

Quotas = Literal["balanced", "proportional"]
Counts = NDArray[np.int64]


def check_every_class(selector: str, sizes: Counts, budget: int) -> None:
    """Refuse a budget with which a selector that goes class by class must leave some out."""
    classes = int((sizes > 0).sum())
    if budget < classes:
        raise errors.BudgetImpossible(
            f"selector {selector!r} goes class by class, but only {budget} of {int(sizes.sum())} samples are to stay "
            f"and there are {classes} classes; choose a smaller ratio, or selector 'top'"
        )


def balanced_quotas(sizes: Counts, budget: int) -> Counts:
    """Equal for all classes to within one; what a class cannot fill goes to the others, the first ones first.

    >>> balanced_quotas(np.array([2, 9, 9]), 11)
    array([2, 5, 4])
    """
    low, high = 0, int(sizes.max())
    while low < high:  # the most full rounds the budget pays for
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(sizes, middle).sum() <= budget else (low, middle - 1)
    quotas = np.minimum(sizes, low)
    more = np.flatnonzero(sizes > low)[: budget - int(quotas.sum())]
    quotas[more] += 1
    return quotas


def proportional_quotas(sizes: Counts, budget: int) -> Counts:
    """The same share of every class: seats by the method of Sainte-Laguë, the r-th (from 0) at (r + 1/2) / size.

    >>> proportional_quotas(np.array([10, 20, 30]), 7)
    array([1, 2, 4])
    """
    low, high = 0.0, 1.0
    for _ in range(60):  # a price per seat just low enough that no more than the budget is sold
        middle = (low + high) / 2
        low, high = (middle, high) if np.floor(middle * sizes + 0.5).sum() <= budget else (low, middle)
    # One seat back for every class, so that rounding cannot have sold one too early; the rest one by one.
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
    """How many of each class stay."""
    return balanced_quotas(sizes, budget) if how == "balanced" else proportional_quotas(sizes, budget)


def apportion(shares: NDArray[np.float64], budget: int, room: Counts) -> Counts:
    """Whole numbers near `shares` that sum to `budget`, none above its `room`: largest remainders first.

    >>> apportion(np.array([1.5, 2.5, 3.0]), 7, np.array([9, 9, 9]))
    array([2, 2, 3])
    """
    quotas = np.minimum(np.floor(shares + 1e-9).astype(np.int64), room)
    while missing := budget - int(quotas.sum()):
        remainder = np.where(quotas < room, shares - quotas, -np.inf)
        chosen = np.argsort(-remainder, kind="stable")[: min(missing, int((quotas < room).sum()))]
        quotas[chosen] += 1
    return quotas
