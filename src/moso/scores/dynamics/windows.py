"""Iterate over dynamics, ``[epochs, samples]`` on disk, in chunks of samples and in windows of epochs.

A column may be larger than memory. Several scores measure the movement of a prediction over windows of successive
epochs.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from moso.columns import Array

CHUNK = 65_536
OfSamples = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def over_samples(column: Array, of: OfSamples, chunk: int = CHUNK) -> NDArray[np.float64]:
    """Apply `of` to chunks of samples and concatenate the results.

    Args:
        column: One column of the dynamics, shape ``[epochs, samples]``; may be a memory map.
        of: Maps float64 ``[epochs, some]`` to ``[some]``.
        chunk: Samples per chunk.

    Returns:
        One float64 per sample, shape ``[samples]``.

    Example:
        >>> over_samples(np.arange(6.0).reshape(2, 3), lambda rows: rows.mean(axis=0), chunk=2)
        array([1.5, 2.5, 3.5])
    """
    count = column.shape[1]
    parts = [of(np.asarray(column[:, start : start + chunk], np.float64)) for start in range(0, count, chunk)]
    return np.concatenate(parts)


def shortened(window: int, epochs: int) -> int:
    """Return `window`, or half of the epochs (at least 2) if training was shorter than two windows.

    Example:
        >>> shortened(10, 200), shortened(10, 12), shortened(10, 3)
        (10, 6, 2)
    """
    return min(window, max(2, epochs // 2))


def windows(rows: NDArray[np.float64], length: int, starts: int) -> Iterator[NDArray[np.float64]]:
    """Yield the first `starts` windows of `length` epochs (at least one), each of shape ``[length, some]``.

    Example:
        >>> [part[:, 0].tolist() for part in windows(np.arange(4.0)[:, None], 2, 3)]
        [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]
    """
    return (rows[start : start + length] for start in range(max(1, starts)))


def mean_over_windows(
    rows: NDArray[np.float64], window: int, of: OfSamples, with_last: bool = True
) -> NDArray[np.float64]:
    """Return the mean of a statistic over all windows of epochs, shape ``[some]``.

    Args:
        rows: One column of the dynamics, shape ``[epochs, some]``.
        window: Epochs per window, `shortened` for short trainings.
        of: Maps a window ``[length, some]`` to ``[some]``.
        with_last: Whether the window that ends with the last epoch counts.

    Example:
        >>> mean_over_windows(np.array([[0.0], [1.0], [5.0]]), 2, lambda part: part.mean(axis=0))
        array([1.75])
    """
    length = shortened(window, len(rows))
    starts = len(rows) - length + int(with_last)
    return np.asarray(np.mean([of(part) for part in windows(rows, length, starts)], axis=0))
