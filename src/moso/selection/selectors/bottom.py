"""`bottom`: keep the lowest scores overall; a control experiment for the meaning of a score. O(N log N)."""

import numpy as np
from numpy.typing import NDArray

from moso.selection.orders import best_first
from moso.selection.problem import Problem


def bottom(problem: Problem) -> NDArray[np.int64]:
    """Return the positions of the `budget` lowest scores."""
    return best_first(-problem.scores)[: problem.budget]
