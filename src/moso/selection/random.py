"""`random`: keep any samples at all, whatever their scores; addressed by (seed, id rank). O(N log N)."""

import numpy as np
from numpy.typing import NDArray

from moso.randomness import hashes
from moso.selection.problem import Problem


def random(problem: Problem) -> NDArray[np.int64]:
    """`budget` samples, all equally likely."""
    drawn = hashes(problem.tie.astype(np.uint64), problem.seed, "random-selection")
    return np.argsort(drawn, kind="stable")[: problem.budget]
