"""Principal components of features, read in chunks: the same features give the same components."""

import numpy as np
from numpy.typing import NDArray

from moso.selection.feature_rows import Features

# Samples from which the principal directions are computed.
FITTED = 10_000


def principal_components(features: Features, count: int) -> NDArray[np.float32]:
    """Project features onto their leading principal directions.

    Directions are computed in float64 from at most `FITTED` evenly spaced samples.

    Args:
        features: One row per sample.
        count: Number of components; all of them if features have fewer dimensions.

    Returns:
        The components, largest variance first, shape ``[samples, min(count, dimension)]``.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(100, 3)) * [1, 9, 3]
        >>> found = principal_components(Features(rows), 2)
        >>> found.shape, bool(np.corrcoef(found[:, 0], rows[:, 1])[0, 1] ** 2 > 0.98)
        ((100, 2), True)
    """
    step = -(-len(features) // FITTED)
    chosen = features.take(np.arange(0, len(features), step)).astype(np.float64)
    centre = chosen.mean(axis=0)
    _, vectors = np.linalg.eigh((chosen - centre).T @ (chosen - centre))
    # eigh leaves the signs undetermined; fix them, so that the same features give the same components.
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    directions = ((vectors * signs)[:, ::-1][:, :count]).astype(np.float32)
    found = np.empty((len(features), directions.shape[1]), dtype=np.float32)
    for start, rows in features.chunks():
        found[start : start + len(rows)] = (rows - centre.astype(np.float32)) @ directions
    return found
