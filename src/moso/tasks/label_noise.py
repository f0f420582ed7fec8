"""Label noise: a share of the samples gets a new label, drawn from all classes or flipped to the next class.

`symmetric` draws uniformly over all classes, the sample's own among them. `pair` flips class c to c + 1 and the last
class to the first (Han et al., Co-teaching, NeurIPS 2018): wrong labels agree with each other, so they do not cancel.
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.randomness import hashes, uniforms

NoiseKind = Literal["symmetric", "pair"]


def add_label_noise(
    labels: NDArray[np.int64],
    keys: NDArray[np.uint64],
    classes: int,
    rate: float,
    seed: int,
    kind: NoiseKind = "symmetric",
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return noisy labels, and which samples were drawn.

    Of the samples that symmetric noise draws, about 1/classes get their own label again; `pair` gives each a wrong one.

    Args:
        labels: Class index per sample, shape `[n]`.
        keys: One 64-bit key per sample, shape `[n]`.
        classes: Number of classes.
        rate: Share of the samples that are drawn, in [0, 1].
        seed: Seed of the draws.
        kind: Where the new label comes from, `symmetric` or `pair`; the samples that are drawn are the same.

    Raises:
        SettingInvalid: `rate` is outside [0, 1], or there is no such kind.

    Example:
        >>> labels = np.zeros(1000, dtype=np.int64)
        >>> noisy, drawn = add_label_noise(labels, np.arange(1000, dtype=np.uint64), 10, 0.2, seed=0)
        >>> int(drawn.sum()), sorted(set(noisy.tolist())) == list(range(10))
        (200, True)
        >>> flipped, drawn = add_label_noise(labels, np.arange(1000, dtype=np.uint64), 10, 0.4, seed=0, kind="pair")
        >>> np.bincount(flipped).tolist()
        [600, 400]
    """
    if kind not in get_args(NoiseKind):
        raise errors.SettingInvalid(f"label noise {kind!r} is not known; it is {' or '.join(get_args(NoiseKind))}")
    if not 0 <= rate <= 1:
        raise errors.SettingInvalid(f"label noise {rate} is outside [0, 1]")
    count = round(rate * len(labels))
    chosen = np.argsort(hashes(keys, seed, "noise-sample"), kind="stable")[:count]
    drawn = np.zeros(len(labels), dtype=bool)
    drawn[chosen] = True
    if kind == "pair":
        return np.where(drawn, (labels + 1) % classes, labels), drawn
    fresh = (uniforms(keys, seed, "noise-label") * classes).astype(np.int64)
    return np.where(drawn, fresh, labels), drawn
