"""Orders of samples: best score first with ties broken by id, and addressed draws without replacement.

Adding a Gumbel draw to the logarithm of each weight and sorting gives the samples in the order in which they would be
drawn one by one, each time in proportion to the weights of those that are left (Kool et al., ICML 2019). The draw of
a sample is a function of (seed, purpose, id), so nobody else's presence changes it.
"""

import numpy as np
from numpy.typing import NDArray

from moso.randomness import Address, hashes, uniforms


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


def shuffled(keys: NDArray[np.uint64], *address: Address) -> NDArray[np.int64]:
    """Positions in an order drawn at this address.

    >>> sorted(shuffled(np.arange(3, dtype=np.uint64), 0, "example").tolist())
    [0, 1, 2]
    """
    return np.argsort(hashes(keys, *address), kind="stable")


def weighted_order(log_weights: NDArray[np.float64], keys: NDArray[np.uint64], *address: Address) -> NDArray[np.int64]:
    """Positions in the order of a draw without replacement; a weight of nothing (-inf) comes last.

    >>> weighted_order(np.array([-np.inf, 0.0]), np.arange(2, dtype=np.uint64), 0, "example")
    array([1, 0])
    """
    draws = uniforms(keys, *address) + 2.0**-54  # never 0, whose logarithm there is none of
    return np.argsort(-(log_weights - np.log(-np.log(draws))), kind="stable")
