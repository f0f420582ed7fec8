"""`keep` and `drop`: samples that the user decided about, whatever their scores, within the same budget.

The selector chooses among the undecided samples as if there were no others. Samples kept by hand count against the
budget, so `ratio` still removes exactly its share. Where the selector gives weights, samples kept by hand stand for
themselves and get weight 1.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.selection.kept_positions import Kept, joined
from moso.selection.problem import Problem


def with_decisions(
    problem: Problem, keep: NDArray[np.int64], drop: NDArray[np.int64], choose: Callable[[Problem], Kept]
) -> Kept:
    """Apply `choose` to the undecided samples, and add the samples in `keep`.

    Args:
        problem: The whole problem.
        keep: Positions to keep, each once.
        drop: Positions to drop, each once.
        choose: Returns the kept samples of a problem.

    Returns:
        Kept samples, `problem.budget` of them, none twice.

    Raises:
        SettingsConflict: A sample is in both `keep` and `drop`.
        BudgetImpossible: `keep` has more samples than the budget, or `drop` leaves too few.

    Example:
        >>> problem = Problem(np.array([0.9, 0.1, 0.5, 0.7]), 2)
        >>> best = lambda part: Kept(np.argsort(-part.scores)[: part.budget])
        >>> with_decisions(problem, np.array([1]), np.array([0]), best).positions
        array([1, 3])
    """
    if len(np.intersect1d(keep, drop)):
        raise errors.SettingsConflict(
            f"sample {np.intersect1d(keep, drop)[0]} is in keep and in drop; remove it from one of the two"
        )
    decided = np.zeros(len(problem), dtype=bool)
    decided[keep] = True
    decided[drop] = True
    rest, room = np.flatnonzero(~decided), problem.budget - len(keep)
    if room < 0:
        raise errors.BudgetImpossible(
            f"{len(keep)} samples are to be kept by hand, but only {problem.budget} of {len(problem)} are to stay; "
            "choose a smaller ratio or keep fewer"
        )
    if room > len(rest):
        raise errors.BudgetImpossible(
            f"{len(drop)} samples are to be dropped by hand, but only {len(problem) - problem.budget} of "
            f"{len(problem)} are to go; choose a larger ratio or drop fewer"
        )
    return joined([Kept(keep), choose(problem.subset(rest, room)).within(rest)]) if room else Kept(keep)
