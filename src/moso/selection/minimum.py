"""`min_per_class`: a number of samples that every class keeps, whatever the selector, within the same budget.

The selector first runs as usual. Classes that keep too few samples are then selected separately, by the same selector
with the guaranteed number as budget, and the selector divides the rest of the budget among the other classes. This
repeats until no further class is short. Every class keeps `minimum` samples, or all its samples if it has fewer.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.selection.classes import members
from moso.selection.kept_positions import Kept, joined
from moso.selection.problem import Problem


def guaranteed_counts(sizes: NDArray[np.int64], minimum: int, budget: int) -> NDArray[np.int64]:
    """Return how many samples each class must keep, shape ``[classes]``.

    Raises:
        BudgetImpossible: The guaranteed numbers exceed the budget.

    Example:
        >>> guaranteed_counts(np.array([2, 9]), 3, budget=6)
        array([2, 3])
    """
    guaranteed = np.minimum(sizes, minimum)
    if guaranteed.sum() > budget:
        raise errors.BudgetImpossible(
            f"min_per_class {minimum} asks for {int(guaranteed.sum())} samples, but only {budget} of "
            f"{int(sizes.sum())} are to stay; choose a smaller ratio or a smaller minimum"
        )
    return guaranteed


def with_minimum(problem: Problem, minimum: int, choose: Callable[[Problem], Kept]) -> Kept:
    """Apply `choose` so that every class keeps at least `minimum` samples.

    Args:
        problem: The problem, with labels.
        minimum: Samples per class that must be kept.
        choose: Returns the kept samples of a problem.

    Returns:
        Kept samples, `problem.budget` of them.

    Raises:
        LabelsMissing: The problem has no labels.
        BudgetImpossible: The guaranteed numbers exceed the budget.
    """
    if problem.labels is None:
        raise errors.LabelsMissing("min_per_class needs labels=, one class per sample")
    guaranteed = guaranteed_counts(np.bincount(problem.labels), minimum, problem.budget)
    short = np.zeros(len(guaranteed), dtype=bool)
    rest = choose(problem)
    while True:
        counts = np.bincount(problem.labels[rest.positions], minlength=len(guaranteed))
        fallen = ~short & (counts < guaranteed)
        if not fallen.any():
            break
        short |= fallen
        others = np.flatnonzero(~short[problem.labels])
        budget = problem.budget - int(guaranteed[short].sum())
        rest = choose(problem.subset(others, budget)).within(others) if budget else Kept(others[:0])
    kept = [
        choose(problem.subset(positions, int(guaranteed[label]))).within(positions)
        for label, positions in members(problem.labels)
        if short[label]
    ]
    return joined([rest, *kept])
