"""Likely label errors, counted by the rule of confident learning on out-of-sample probabilities.

Northcutt, Jiang and Chuang, "Confident Learning: Estimating Uncertainty in Dataset Labels", JAIR 2021, equation 1: the
threshold t_j of class j is the mean probability of j over the samples labelled j. A sample counts for the most probable
class among those whose probability reaches the threshold; if that class is not its label, the label is likely wrong.
These are the samples off the diagonal of the confident joint. No package is needed for it.
"""

import numpy as np
from numpy.typing import NDArray

_BLOCK = 65_536


def likely_label_errors(probabilities: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each label is likely wrong.

    Args:
        probabilities: Out-of-sample probabilities, shape ``[samples, classes]``; may be a memory map.
        labels: One class number per sample, shape ``[samples]``.

    Returns:
        Booleans, shape ``[samples]``.

    Example:
        >>> probabilities = np.array([[0.9, 0.1], [0.7, 0.3], [0.1, 0.9], [0.95, 0.05]], dtype=np.float32)
        >>> likely_label_errors(probabilities, np.array([0, 0, 1, 1]))
        array([False, False, False,  True])
    """
    count, classes = probabilities.shape
    total, size = np.zeros(classes), np.bincount(labels, minlength=classes)
    blocks = [slice(start, start + _BLOCK) for start in range(0, count, _BLOCK)]
    for block in blocks:
        own = np.asarray(probabilities[block], dtype=np.float64)[np.arange(len(labels[block])), labels[block]]
        total += np.bincount(labels[block], weights=own, minlength=classes)
    with np.errstate(invalid="ignore", divide="ignore"):
        threshold = np.where(size > 0, total / size, np.inf)
    found = np.zeros(count, dtype=bool)
    for block in blocks:
        reached = np.asarray(probabilities[block], dtype=np.float64)
        reached = np.where(reached >= threshold, reached, -1.0)
        found[block] = (reached.max(axis=1) >= 0) & (reached.argmax(axis=1) != labels[block])
    return found
