"""The order every selector starts from: best score first, ties broken by id."""

import numpy as np
from numpy.typing import NDArray


def best_first(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Positions from the highest score to the lowest; equal scores in the order they come, which is that of ids.

    >>> best_first(np.array([1.0, 3.0, 1.0]))
    array([1, 0, 2])
    """
    return np.argsort(-scores, kind="stable")


def rank_in_class(order: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """For every sample, how many of its own class come before it in `order`.

    >>> rank_in_class(np.array([2, 0, 1]), np.array([0, 0, 1]))
    array([0, 1, 0])
    """
    grouped = order[np.argsort(labels[order], kind="stable")]
    sizes = np.bincount(labels)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    rank = np.empty(len(order), dtype=np.int64)
    rank[grouped] = np.arange(len(order)) - starts
    return rank
