"""Confident learning for comparison: cleanlab's results on the same out-of-sample probabilities.

Northcutt, Jiang and Chuang, "Confident Learning: Estimating Uncertainty in Dataset Labels", JAIR 2021. cleanlab is an
optional dependency (`pip install "moso-prune[cleanlab]"`), imported on first use.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moso import errors

QUALITIES = {
    "cleanlab: self-confidence": "self_confidence",
    "cleanlab: normalised margin": "normalized_margin",
}
ISSUES = "cleanlab: confident learning"


@dataclass(frozen=True)
class Opinion:
    """The result of one detector of label errors.

    Attributes:
        suspicion: How suspicious each sample is, high means more, shape ``[samples]``.
        flagged: Whether the detector calls each label wrong, shape ``[samples]``; None if it only ranks.
    """

    suspicion: NDArray[np.float64]
    flagged: NDArray[np.bool_] | None = None


def confident_learning(labels: NDArray[np.int64], probabilities: NDArray[np.float32]) -> dict[str, Opinion]:
    """Run cleanlab's detectors of label errors.

    The detectors are: label quality by self-confidence, label quality by normalised margin, and the issues found by
    confident learning (flagged samples first, each group by self-confidence).

    Args:
        labels: One class number per sample, shape ``[samples]``.
        probabilities: Out-of-sample probabilities, shape ``[samples, classes]``.

    Returns:
        One `Opinion` per detector, by name.

    Raises:
        PackageMissing: cleanlab is not installed.

    Example:
        >>> probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.95, 0.05]], dtype=np.float32)
        >>> found = confident_learning(np.array([0, 0, 1, 1]), probabilities)
        >>> [int(opinion.suspicion.argmax()) for opinion in found.values()]
        [3, 3, 3]
    """
    try:
        from cleanlab.filter import find_label_issues
        from cleanlab.rank import get_label_quality_scores
    except ImportError as problem:
        raise errors.package_missing("cleanlab", "cleanlab") from problem
    found = {}
    for name, method in QUALITIES.items():
        quality = get_label_quality_scores(labels, probabilities, method=method)
        found[name] = Opinion(-np.asarray(quality, dtype=np.float64))
    flagged = np.asarray(find_label_issues(labels, probabilities, n_jobs=1), dtype=bool)
    doubt = found["cleanlab: self-confidence"].suspicion  # from -1 to 0
    found[ISSUES] = Opinion(np.where(flagged, doubt + 2.0, doubt), flagged)
    return found
