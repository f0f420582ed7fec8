"""Going over dynamics, which are `[epochs, samples]` on disk: some samples at a time, some epochs at a time.

A column may be larger than memory. Windows of successive epochs are what several scores measure a prediction's
movement over.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 65_536
OfSamples = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def over_samples(column: NDArray[Any], of: OfSamples, chunk: int = CHUNK) -> NDArray[np.float64]:
    """What `of` gives for every sample: it maps `[epochs, some]` to `[some]`.

    >>> over_samples(np.arange(6.0).reshape(2, 3), lambda rows: rows.mean(axis=0), chunk=2)
    array([1.5, 2.5, 3.5])
    """
    count = column.shape[1]
    parts = [of(np.asarray(column[:, start : start + chunk], np.float64)) for start in range(0, count, chunk)]
    return np.concatenate(parts)


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
