"""Orders of samples: best score first with ties broken by id, and random draws without replacement.

Adding a Gumbel draw to the logarithm of each weight and sorting gives the order of a sequential draw without
replacement, in proportion to the remaining weights (Kool et al., ICML 2019). The draw of a sample is a function of
(seed, purpose, id), so it does not depend on the other samples.
"""

import numpy as np
from numpy.typing import NDArray

from moso.randomness import Address, hashes, uniforms


def best_first(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return positions from the highest score to the lowest; ties keep their order, which is that of the ids.

    Example:
        >>> best_first(np.array([1.0, 3.0, 1.0]))
        array([1, 0, 2])
    """
    return np.argsort(-scores, kind="stable")


def rank_in_class(order: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for every sample how many samples of its class come before it in `order`; shape ``[samples]``.

    Example:
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
    """Return all positions in a random order that depends on the keys and the address only.

    Example:
        >>> sorted(shuffled(np.arange(3, dtype=np.uint64), 0, "example").tolist())
        [0, 1, 2]
    """
    return np.argsort(hashes(keys, *address), kind="stable")


def weighted_order(log_weights: NDArray[np.float64], keys: NDArray[np.uint64], *address: Address) -> NDArray[np.int64]:
    """Return all positions in the order of a weighted draw without replacement.

    Args:
        log_weights: Logarithm of each sample's weight, shape ``[samples]``; -inf (weight 0) comes last.
        keys: One 64-bit key per sample.
        *address: Seed and purpose of the draw.

    Example:
        >>> weighted_order(np.array([-np.inf, 0.0]), np.arange(2, dtype=np.uint64), 0, "example")
        array([1, 0])
    """
    draws = uniforms(keys, *address) + 2.0**-54  # strictly positive, so that the logarithm is finite
    return np.argsort(-(log_weights - np.log(-np.log(draws))), kind="stable")
