"""Symmetric label noise: a share of the samples gets a new label, uniform over all classes including its own."""

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.randomness import hashes, uniforms


def add_label_noise(
    labels: NDArray[np.int64], keys: NDArray[np.uint64], classes: int, rate: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return noisy labels, and which samples were drawn (about 1/classes of them drew their own label again).

    Args:
        labels: Class index per sample, shape `[n]`.
        keys: One 64-bit key per sample, shape `[n]`.
        classes: Number of classes.
        rate: Share of the samples that are drawn, in [0, 1].
        seed: Seed of the draws.

    Raises:
        SettingInvalid: `rate` is outside [0, 1].

    Example:
        >>> labels = np.zeros(1000, dtype=np.int64)
        >>> noisy, drawn = add_label_noise(labels, np.arange(1000, dtype=np.uint64), 10, 0.2, seed=0)
        >>> int(drawn.sum()), sorted(set(noisy.tolist())) == list(range(10))
        (200, True)
    """
    if not 0 <= rate <= 1:
        raise errors.SettingInvalid(f"label noise {rate} is outside [0, 1]")
    count = round(rate * len(labels))
    chosen = np.argsort(hashes(keys, seed, "noise-sample"), kind="stable")[:count]
    drawn = np.zeros(len(labels), dtype=bool)
    drawn[chosen] = True
    fresh = (uniforms(keys, seed, "noise-label") * classes).astype(np.int64)
    return np.where(drawn, fresh, labels), drawn
