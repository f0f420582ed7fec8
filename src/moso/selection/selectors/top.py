"""`top`: keep the highest scores overall (the paper's Algorithm 1).

Classes may end up with very different shares: on CIFAR-100 the top 20 % hold between 18 and 187 of a class's 500
samples. O(N).
"""

import numpy as np
from numpy.typing import NDArray

from moso.columns import flatnonzero
from moso.selection.problem import Problem


def top(problem: Problem) -> NDArray[np.int64]:
    """Return the ascending positions of the `budget` highest scores; ties at the threshold are broken by id."""
    scores, budget = problem.scores, problem.budget
    if budget in (0, len(scores)):
        return flatnonzero(np.full(len(scores), budget > 0))
    border = np.partition(scores, len(scores) - budget)[len(scores) - budget]
    above = scores > border
    above[flatnonzero(scores == border)[: budget - np.count_nonzero(above)]] = True
    return flatnonzero(above)
