"""Cosine similarities between samples for selectors that cover feature space: dense for few samples, sparse for many.

A negative cosine counts as 0 (a sample says nothing about one that points the other way), so similarities are in
``[0, 1]`` and sums of their maxima and differences are submodular. A sample has similarity 1 to itself, also if its
features are all 0; such a sample is similar to nothing else.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from moso.selection.feature_rows import Features
from moso.selection.neighbours import nearest


def cosine_matrix(features: Features) -> NDArray[np.float32]:
    """Return the similarities of all pairs, shape ``[samples, samples]``.

    Example:
        >>> cosine_matrix(Features([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]]))
        array([[1., 1., 0.],
               [1., 1., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    rows = features.scaled().take(np.arange(len(features)))
    found: NDArray[np.float32] = np.clip(rows @ rows.T, 0, 1)
    np.fill_diagonal(found, 1)
    # Products of two rows may round differently in the two orders.
    return np.asarray(np.maximum(found, found.T), dtype=np.float32)


def likeness_matrix(features: Features, neighbours: int) -> csr_array:
    """Return the sparse matrix K: one row per sample, with the cosines of its `neighbours` nearest samples."""
    where, cosines = nearest(features, neighbours, "cosine")
    count, each = where.shape
    return csr_array((cosines.ravel(), where.ravel(), np.arange(count + 1) * each), shape=(count, count))


def cosine_graph(features: Features, neighbours: int) -> csr_array:
    """Return the symmetric sparse matrix of similarities where one of two samples is among the other's nearest.

    Args:
        features: One row per sample.
        neighbours: Nearest other samples per sample.

    Returns:
        float32 of shape ``[samples, samples]`` with sorted columns; all other pairs count as 0.

    Example:
        >>> cosine_graph(Features([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), 1).toarray().round(3)
        array([[1., 1., 0.],
               [1., 1., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    found = likeness_matrix(features, neighbours).astype(np.float32)
    np.clip(found.data, 0, 1, out=found.data)
    found = csr_array(found.maximum(found.T))
    found = csr_array(found.maximum(eye_array(len(features), dtype=np.float32)))
    found.eliminate_zeros()
    found.sort_indices()
    return found
