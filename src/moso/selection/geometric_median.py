"""The geometric median of rows of features: the point with the least sum of distances to all of them.

    m = argmin_m sum_x | m - x |

Weiszfeld's iteration replaces m by the mean of the rows with weights 1 / |m - x|. Where m meets a row, the row's own
weight is infinite; the step of Vardi & Zhang (PNAS 2000) then leaves the row unless the others pull harder than it
holds. The iteration starts at the mean and stops when a step is shorter than `TOLERANCE` times the median distance of
the rows (which outliers do not lengthen, as they do the mean distance), or after `MOST` steps. O(N d) per step; rows
are read in chunks.
"""

import numpy as np
from numpy.typing import NDArray

from moso.selection.feature_rows import Features

TOLERANCE = 1e-6
MOST = 1000


def geometric_median(features: Features) -> NDArray[np.float64]:
    """Return the geometric median of the rows, shape ``[dimension]``.

    Example:
        >>> geometric_median(Features([[0.0], [1.0], [2.0], [3.0], [1000.0]])).round(3)
        array([2.])
    """
    centre = features.mean()
    for _ in range(MOST):
        moved, distance = _step(features, centre)
        length = float(np.linalg.norm(moved - centre))
        centre = moved
        if length <= TOLERANCE * distance:
            break
    return centre


def _step(features: Features, centre: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the next point, and the median distance of the rows from the current one."""
    pull, weight, here, distances = np.zeros_like(centre), 0.0, 0, np.empty(len(features))
    for start, rows in features.chunks():
        away = rows - centre
        lengths = np.linalg.norm(away, axis=1)
        apart = lengths > 0
        here += int(len(rows) - apart.sum())
        inverse = 1 / lengths[apart]
        pull += inverse @ away[apart]
        weight += float(inverse.sum())
        distances[start : start + len(rows)] = lengths
    strength = float(np.linalg.norm(pull))
    if strength <= here:  # the rows at the point itself hold it
        return centre, float(np.median(distances))
    return centre + pull / weight * (1 - here / strength), float(np.median(distances))
