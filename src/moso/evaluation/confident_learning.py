"""Confident learning beside our scores: what cleanlab says of the same out-of-sample probabilities.

Northcutt, Jiang and Chuang, "Confident Learning: Estimating Uncertainty in Dataset Labels", JAIR 2021. It is other
people's code (`pip install "moso-prune[cleanlab]"`) and is imported only when it is asked for.
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
    """How suspicious a detector finds each sample, `[samples]`, high means more; and whom it calls wrong, if anyone."""

    suspicion: NDArray[np.float64]
    flagged: NDArray[np.bool_] | None = None


def confident_learning(labels: NDArray[np.int64], probabilities: NDArray[np.float32]) -> dict[str, Opinion]:
    """What cleanlab makes of `labels: [samples]` and out-of-sample `probabilities: [samples, classes]`, by name.

    Label quality by self-confidence and by normalised margin, and the issues that confident learning finds, those
    before all others and each group by self-confidence.

    >>> probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.95, 0.05]], dtype=np.float32)
    >>> found = confident_learning(np.array([0, 0, 1, 1]), probabilities)
    >>> [int(opinion.suspicion.argmax()) for opinion in found.values()]
    [3, 3, 3]
    """
    try:
        from cleanlab.filter import find_label_issues
        from cleanlab.rank import get_label_quality_scores
    except ImportError as problem:
        raise errors.PackageMissing(
            'cleanlab is not installed; `pip install "moso-prune[cleanlab]"` does it'
        ) from problem
    found = {}
    for name, method in QUALITIES.items():
        quality = get_label_quality_scores(labels, probabilities, method=method)
        found[name] = Opinion(-np.asarray(quality, dtype=np.float64))
    flagged = np.asarray(find_label_issues(labels, probabilities, n_jobs=1), dtype=bool)
    doubt = found["cleanlab: self-confidence"].suspicion  # from -1 to 0
    found[ISSUES] = Opinion(np.where(flagged, doubt + 2.0, doubt), flagged)
    return found
