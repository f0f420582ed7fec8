"""Addressed sampling without replacement, with unequal chances.

Adding a Gumbel draw to the logarithm of each weight and sorting gives the samples in the order in which they would be
drawn one by one, each time in proportion to the weights of those that are left (Kool et al., ICML 2019). The draw of
a sample is a function of (seed, purpose, id), so nobody else's presence changes it.
"""

import numpy as np
from numpy.typing import NDArray

from moso.randomness import Address, hashes, uniforms


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
