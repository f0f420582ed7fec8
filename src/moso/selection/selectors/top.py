"""`top`: keep the highest scores overall (the paper's Algorithm 1).

What a class gets is whatever its scores win: on CIFAR-100 the top 20 % hold between 18 and 187 of a
class's 500 samples. O(N).
"""

import numpy as np
from numpy.typing import NDArray

from moso.columns import where
from moso.selection.problem import Problem


def top(problem: Problem) -> NDArray[np.int64]:
    """The `budget` highest; of equal ones at the border those that come first, as ids have it."""
    scores, budget = problem.scores, problem.budget
    if budget in (0, len(scores)):
        return where(np.full(len(scores), budget > 0))
    border = np.partition(scores, len(scores) - budget)[len(scores) - budget]
    above = scores > border
    above[where(scores == border)[: budget - np.count_nonzero(above)]] = True
    return where(above)
