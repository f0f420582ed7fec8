"""`proportional`: keep the same share of every class, the highest scores of each.

Samples are taken by their relative rank in their class, (rank + 1/2) / size: the method of Sainte-Laguë for seats in a
parliament, which is exact to the sample and free of the paradoxes of other apportionments. O(N log N).
"""

import numpy as np
from numpy.typing import NDArray

from moso.selection.orders import best_first, rank_in_class
from moso.selection.problem import Problem
from moso.selection.quotas import check_every_class


def proportional(problem: Problem) -> NDArray[np.int64]:
    """Return `budget` positions, the same share of every class."""
    labels = problem.labels_for("proportional")
    sizes = np.bincount(labels)
    check_every_class("proportional", sizes, problem.budget)
    rank = rank_in_class(best_first(problem.scores), labels)
    return np.lexsort((labels, (rank + 0.5) / sizes[labels]))[: problem.budget]
