"""`balanced`: keep the same number of samples of every class, the highest scores of each (as the authors' code does).

Samples are taken in rounds: the best of every class, then the second best of every class, until the budget is spent. A
class that runs out of samples leaves its share to the other classes. The selections are nested: a smaller budget keeps
a subset of what a larger budget keeps. O(N log N).
"""

import numpy as np
from numpy.typing import NDArray

from moso.selection.orders import best_first, rank_in_class
from moso.selection.problem import Problem
from moso.selection.quotas import check_every_class


def balanced(problem: Problem) -> NDArray[np.int64]:
    """Return `budget` positions, equally many per class to within one."""
    labels = problem.labels_for("balanced")
    check_every_class("balanced", np.bincount(labels), problem.budget)
    rank = rank_in_class(best_first(problem.scores), labels)
    return np.lexsort((labels, rank))[: problem.budget]
