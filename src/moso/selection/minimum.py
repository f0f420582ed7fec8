"""`min_per_class`: a number of samples that every class keeps, whatever the selector, within the same budget.

The selector runs as it always does. Classes that come out short are then selected by themselves, by the same selector
with just the guaranteed number as budget, and the rest of the budget goes to the other classes together, by the same
selector again; if that leaves another class short, so does it. Every class keeps `minimum` samples, or all it has.
"""

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.selection.classes import Choose, members
from moso.selection.problem import Problem


def guaranteed_counts(sizes: NDArray[np.int64], minimum: int, budget: int) -> NDArray[np.int64]:
    """How many samples of each class must stay; refused where that is more than may.

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


def with_minimum(problem: Problem, minimum: int, choose: Choose) -> NDArray[np.int64]:
    """What `choose` keeps, with at least `minimum` samples of every class."""
    if problem.labels is None:
        raise errors.LabelsMissing("min_per_class needs labels=, one class a sample")
    guaranteed = guaranteed_counts(np.bincount(problem.labels), minimum, problem.budget)
    short = np.zeros(len(guaranteed), dtype=bool)
    rest = choose(problem)
    while True:
        counts = np.bincount(problem.labels[rest], minlength=len(guaranteed))
        fallen = ~short & (counts < guaranteed)
        if not fallen.any():
            break
        short |= fallen
        others = np.flatnonzero(~short[problem.labels])
        budget = problem.budget - int(guaranteed[short].sum())
        rest = others[choose(problem.subset(others, budget))] if budget else others[:0]
    kept = [
        positions[choose(problem.subset(positions, int(guaranteed[label])))]
        for label, positions in members(problem.labels)
        if short[label]
    ]
    return np.concatenate([rest, *kept])
