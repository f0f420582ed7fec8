"""`bottom`: keep the lowest scores overall; the control that shows a score means something. O(N log N)."""

import numpy as np
from numpy.typing import NDArray

from moso.selection.orders import best_first
from moso.selection.problem import Problem


def bottom(problem: Problem) -> NDArray[np.int64]:
    """The `budget` lowest."""
    return best_first(-problem.scores)[: problem.budget]
