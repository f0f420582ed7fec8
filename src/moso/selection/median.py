"""`median`: keep the scores nearest to the median: neither the extreme nor the trivial. O(N log N)."""

import numpy as np
from numpy.typing import NDArray

from moso.selection.problem import Problem


def median(problem: Problem) -> NDArray[np.int64]:
    """The `budget` samples around the median score."""
    distance = np.abs(problem.scores - np.median(problem.scores))
    return np.lexsort((problem.tie, distance))[: problem.budget]
