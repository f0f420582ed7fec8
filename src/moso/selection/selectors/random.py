"""`random`: keep any samples at all, whatever their scores; addressed by (seed, id). O(N log N)."""

import numpy as np
from numpy.typing import NDArray

from moso.selection.orders import shuffled
from moso.selection.problem import Problem


def random(problem: Problem) -> NDArray[np.int64]:
    """`budget` samples, all equally likely."""
    return shuffled(problem.keys, problem.seed, "random-selection")[: problem.budget]
