"""`moderate`: the distance from the centre of the class, in feature space.

Believes that samples near the centre of their class are redundant and samples far from the centre are mostly outliers,
so that the samples around the median distance represent the class. With z the features of the trained reference network
and z_c the mean of the features over the class:

    d(x) = | z - z_c |_2                                                          section 3.1 of the source

The stored score is the distance itself. The source keeps the *middle* with the selector `median`; the selector `top`
would keep the outliers. The paper takes the mean as centre, the authors' code the median of each feature
(`centre = "median"`).

Scale: a distance between features. Keep: the middle. Hard: high.
Source: Xia et al., Moderate Coreset: A Universal Method of Data Selection for Real-world Data-efficient Deep Learning,
ICLR 2023.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.evidence_kinds.reference_features import FEATURES
from moso.scores.score import Score, ScoreInput
from moso.settings import Settings

_ROWS = 65_536


class ModerateSettings(Settings):
    """Settings of `moderate`: which statistic is the centre of a class."""

    centre: Literal["mean", "median"] = Field(
        "mean", description="the mean of the class (the paper's), or its median (the code's)"
    )


def distances_to_centre(
    features: NDArray[np.float32], labels: NDArray[np.int64], centre: str = "mean"
) -> NDArray[np.float64]:
    """Compute the distance of each sample from the centre of its class.

    Args:
        features: One row per sample, shape ``[samples, dimension]``; may be a memory map.
        labels: One class number per sample, shape ``[samples]``.
        centre: ``"mean"`` or ``"median"`` (of each feature).

    Returns:
        Euclidean distances, shape ``[samples]``.

    Example:
        >>> distances_to_centre(np.array([[0.0], [2.0], [10.0]], dtype=np.float32), np.array([0, 0, 1]))
        array([1., 1., 0.])
    """
    found = np.empty(len(labels))
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        middle = _median(features, own) if centre == "median" else _mean(features, own)
        for start in range(0, len(own), _ROWS):
            rows = own[start : start + _ROWS]
            found[rows] = np.linalg.norm(features[rows].astype(np.float64) - middle, axis=1)
    return found


def _mean(features: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    total = np.zeros(features.shape[1])
    for start in range(0, len(rows), _ROWS):
        total += features[rows[start : start + _ROWS]].sum(axis=0, dtype=np.float64)
    return total / len(rows)


def _median(features: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(np.median(features[rows], axis=0), dtype=np.float64)


def _compute(given: ScoreInput, settings: ModerateSettings) -> NDArray[np.float64]:
    assert given.labels is not None, "a score that needs labels is refused where there are none"
    return distances_to_centre(given.read(FEATURES), given.labels, settings.centre)


MODERATE = Score(
    "moderate",
    "samples at a middling distance from the centre of their class stand for it",
    _compute,
    frozenset({"labels", "features"}),
    hard="high",
    keep="middle",
    scale="a distance between features",
    formula="| z - mean of the class |_2",
    source="Xia et al., ICLR 2023, section 3.1",
    settings=ModerateSettings,
)
