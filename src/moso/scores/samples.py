"""Going over dynamics some samples at a time: a column is `[epochs, samples]` on disk and may be larger than memory."""

from collections.abc import Callable
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
