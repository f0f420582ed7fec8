"""`random`: a uniform random number per sample; the baseline that every method has to beat.

The number is a function of (seed, id). Keep: high. Hard: neither end.
"""

import numpy as np
from numpy.typing import NDArray

from moso.randomness import uniforms
from moso.scores.score import Score


def random(keys: NDArray[np.uint64], seed: int) -> NDArray[np.float64]:
    """Return one uniform number in ``[0, 1)`` per sample, addressed by seed and key.

    Args:
        keys: One 64-bit key per sample, shape ``[samples]``.
        seed: Seed of the pipeline.

    Returns:
        Scores, shape ``[samples]``.

    Example:
        >>> random(np.arange(3, dtype=np.uint64), seed=0).shape
        (3,)
    """
    return uniforms(keys, seed, "random-score")


RANDOM = Score(
    "random",
    "nothing about a sample; what every method has to beat",
    lambda given: random(given.keys, given.seed),
    scale="uniform between 0 and 1",
    formula="uniform(seed, id)",
    no_unseen="it asks no network",
)
