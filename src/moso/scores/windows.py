"""Windows of successive epochs, over which several scores measure how a sample's prediction moves."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def shortened(window: int, epochs: int) -> int:
    """A window of the source's length, or half of the epochs where training was shorter than two windows.

    >>> shortened(10, 200), shortened(10, 12), shortened(10, 3)
    (10, 6, 2)
    """
    return min(window, max(2, epochs // 2))


def windows(rows: NDArray[np.float64], length: int, starts: int) -> Iterator[NDArray[np.float64]]:
    """The first `starts` windows of `length` epochs, `[length, some]` each; one at the least.

    >>> [part[:, 0].tolist() for part in windows(np.arange(4.0)[:, None], 2, 3)]
    [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]
    """
    return (rows[start : start + length] for start in range(max(1, starts)))
