"""Label suspects: samples ranked by how likely their label is wrong, with out-of-sample predictions.

A score measures how much a sample is worth; a wrong label is worth less than nothing. MoSo's scores rank wrong labels
low, because their gradients disagree with those of the other samples. Scores of difficulty rank wrong labels at their
hard end, which may be the end that their source keeps. So the suspicious end is the hard end of a score that has one,
and the low end of any other score.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moso import errors

# The ranking by out-of-sample probability of the label: not a score, and available in every run with partitions.
OUT_OF_SAMPLE = "out-of-sample"


@dataclass(frozen=True)
class Suspects:
    """The most suspicious samples, worst first; every column has shape ``[suspects]``.

    Attributes:
        positions: Positions of the samples in the data set.
        suspicion: How suspicious each sample is, high means more.
        labels: The given labels.
        predicted: The class predicted by networks that never saw the sample.
        given_probability: The probability that these networks give to the label.
        predicted_probability: The probability that these networks give to the predicted class.
        actual: The right labels, if they are known.
    """

    positions: NDArray[np.int64]
    suspicion: NDArray[np.float64]
    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    given_probability: NDArray[np.float64]
    predicted_probability: NDArray[np.float64]
    actual: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def wrong(self) -> NDArray[np.bool_] | None:
        """Whether each label is really wrong; None if the right labels are not known."""
        return None if self.actual is None else self.actual != self.labels


def suspicion(scores: NDArray[np.float64], hard: Literal["high", "low"] | None) -> NDArray[np.float64]:
    """Turn a score into a suspicion, high means more suspicious.

    Args:
        scores: One float per sample, shape ``[samples]``.
        hard: The hard end of the score; None if it has none.

    Returns:
        Float64 ``[samples]``: the score if its hard end is high, else the negated score.

    Example:
        >>> suspicion(np.array([0.5, -1.0]), hard=None).tolist()
        [-0.5, 1.0]
    """
    return scores.astype(np.float64) if hard == "high" else -scores.astype(np.float64)


def doubt(probabilities: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return 1 minus the out-of-sample probability of each label.

    Args:
        probabilities: Out-of-sample probabilities, shape ``[samples, classes]``.
        labels: One class number per sample, shape ``[samples]``.

    Returns:
        Float64 in ``[0, 1]``, shape ``[samples]``.

    Example:
        >>> doubt(np.array([[0.75, 0.25]], dtype=np.float32), np.array([1])).tolist()
        [0.75]
    """
    return 1.0 - probabilities[np.arange(len(labels)), labels].astype(np.float64)


def find_suspects(
    suspicion: NDArray[np.float64],
    labels: NDArray[np.int64],
    probabilities: NDArray[np.float32],
    top: int | None = 100,
    actual: NDArray[np.int64] | None = None,
) -> Suspects:
    """Return the most suspicious samples, worst first; ties keep the order of the data.

    Args:
        suspicion: One number per sample, high means suspicious, shape ``[samples]``.
        labels: One class number per sample, shape ``[samples]``.
        probabilities: Out-of-sample probabilities, shape ``[samples, classes]``.
        top: Number of suspects; None means all samples.
        actual: The right labels, if they are known.

    Raises:
        LengthMismatch: The columns have different lengths.
        SettingInvalid: `top` is below 1.

    Example:
        >>> probabilities = np.array([[0.9, 0.1], [0.2, 0.8]], dtype=np.float32)
        >>> find_suspects(np.array([0.1, 0.7]), np.array([0, 0]), probabilities, top=1).predicted
        array([1])
    """
    if not len(suspicion) == len(labels) == len(probabilities):
        raise errors.LengthMismatch(
            f"there are {len(suspicion)} scores, {len(labels)} labels and {len(probabilities)} predictions; "
            "they must be of the same samples"
        )
    if top is not None and top < 1:
        raise errors.SettingInvalid(f"top {top} is not a number of suspects; give at least 1")
    first = np.argsort(-suspicion, kind="stable")[:top]
    own, given = np.asarray(probabilities[first], dtype=np.float64), labels[first]
    predicted, rows = own.argmax(axis=1), np.arange(len(first))
    return Suspects(
        first,
        suspicion[first],
        given,
        predicted,
        own[rows, given],
        own[rows, predicted],
        None if actual is None else actual[first],
    )
