"""The paper's partitions S_1..S_I (Algorithm 1, line 3), stratified by class and addressed.

Within each class samples are ranked by hash(seed, id) and dealt round-robin; each class continues at the partition
where the one before stopped. The sizes of the partitions, in total and per class, are equal to within one. There is no
global shuffle, and the result does not depend on the machine or the order of the data.
"""

import warnings

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.columns import arange, empty_column, flatnonzero, group_by_label
from moso.randomness import hash_order


def partition(
    keys: NDArray[np.uint64], labels: NDArray[np.int64], partitions: int, seed: int
) -> list[NDArray[np.int64]]:
    """Return the positions of each partition, ascending.

    Args:
        keys: One 64-bit key per sample, shape `[samples]`.
        labels: Class index per sample, shape `[samples]`.
        partitions: Number of partitions (the paper's I); 1 disables partitioning.
        seed: Seed of the ranking.

    Raises:
        TooFewSamples: A partition would hold fewer than two samples.

    Example:
        >>> keys = np.arange(12, dtype=np.uint64)
        >>> labels = np.repeat([0, 1, 2], 4)
        >>> [np.bincount(labels[part]).tolist() for part in partition(keys, labels, 2, seed=0)]
        [[2, 2, 2], [2, 2, 2]]
    """
    count = len(keys)
    if partitions < 1 or partitions > max(1, count // 2):
        raise errors.TooFewSamples(
            f"{partitions} partitions of {count} samples: there must be at least 1 and at most {max(1, count // 2)}, "
            "so that each holds two samples"
        )
    if partitions == 1:
        return [arange(count)]
    sizes = np.bincount(labels)
    rare = np.flatnonzero((sizes > 0) & (sizes < partitions))
    if len(rare):
        warnings.warn(
            f"{len(rare)} classes have fewer samples than there are partitions ({partitions}); "
            "they are spread, and some surrogates never see them",
            stacklevel=2,
        )
    order = group_by_label(hash_order(keys, seed, "partition"), labels)
    part_of = empty_column(count, np.int32)
    for start in range(partitions):
        part_of[order[start::partitions]] = start
    return [flatnonzero(part_of == part) for part in range(partitions)]


def hold_out(
    keys: NDArray[np.uint64], labels: NDArray[np.int64], share: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions to train on and to test on: `share` of each class is held out, by id only.

    The split does not depend on a seed, so all seeds of all runs are tested on the same samples.

    Args:
        keys: One 64-bit key per sample, shape `[samples]`.
        labels: Class index per sample, shape `[samples]`.
        share: Share of each class to hold out, in [0, 1).

    Example:
        >>> kept, held = hold_out(np.arange(20, dtype=np.uint64), np.repeat([0, 1], 10), 0.2)
        >>> len(kept), len(held)
        (16, 4)
    """
    order = group_by_label(hash_order(keys, "hold-out"), labels)
    sizes = np.bincount(labels)
    # A small class keeps at least one sample to learn from, whatever the share.
    wanted = np.minimum(np.round(sizes * share), np.maximum(sizes - 1, 0)).astype(np.int64)
    held = np.zeros(len(labels), dtype=bool)
    for start, count in zip(np.cumsum(sizes) - sizes, wanted, strict=True):
        held[order[start : start + count]] = True
    return flatnonzero(~held), flatnonzero(held)
