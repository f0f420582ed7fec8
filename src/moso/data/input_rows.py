"""Inputs that are vectors (features, tables), as one array: distances between samples without a network."""

import numpy as np
from numpy.typing import NDArray

from moso.data.samples import Samples
from moso.data.views import load, split_evenly

_BATCH = 4096


def are_vectors(samples: Samples, limit: int) -> bool:
    """Return whether inputs are vectors of numbers that fit into `limit` bytes as float32."""
    return len(samples.shape) == 1 and samples.vocabulary is None and 4 * len(samples) * samples.shape[0] <= limit


def input_rows(samples: Samples, positions: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
    """Return the inputs of samples as networks meet them, shape ``[positions, width]``.

    Args:
        samples: Samples whose inputs are vectors.
        positions: Positions of the samples; None for all.

    Example:
        >>> from moso.data.samples import StoredSamples
        >>> from moso.tasks import Classification
        >>> input_rows(StoredSamples.from_arrays(np.eye(3, dtype=np.float32), [0, 1, 0], Classification())).shape
        (3, 3)
    """
    asked = np.arange(len(samples)) if positions is None else positions
    rows, start = np.empty((len(asked), *samples.shape), dtype=np.float32), 0
    for batch in load(samples.evaluation_view(), split_evenly(asked, _BATCH)):
        found = batch[0].float().cpu().numpy()
        rows[start : start + len(found)] = found
        start += len(found)
    return rows
