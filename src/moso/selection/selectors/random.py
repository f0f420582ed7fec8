"""`random`: keep a uniformly random subset, whatever the scores; a function of (seed, id). O(N log N)."""

import numpy as np
from numpy.typing import NDArray

from moso.selection.orders import shuffled
from moso.selection.problem import Problem


def random(problem: Problem) -> NDArray[np.int64]:
    """Return `budget` positions; all samples are equally likely."""
    return shuffled(problem.keys, problem.seed, "random-selection")[: problem.budget]
