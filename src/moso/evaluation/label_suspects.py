"""Samples whose label is likely wrong: an order by suspicion, and what a network that never saw them would say.

A score says how much a sample is worth; a wrong label is worth less than nothing. MoSo's scores put it at the low end:
its gradient disagrees with that of the others. Scores of difficulty put it at their hard end, which may be the end
that their source keeps. So what is suspicious is the hard end of a score that has one, and the low end of the others.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moso import errors

# The order by what networks that never saw a sample say of its label: no score, but of every run with partitions.
OUT_OF_SAMPLE = "out-of-sample"


@dataclass(frozen=True)
class Suspects:
    """The most suspicious samples, worst first; every column is `[suspects]`.

    `predicted` is the class that networks which never saw the sample give it, `given_probability` what they give to
    its label and `predicted_probability` to their own. `actual` are the right labels, where they are known.
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
        """Whose label really is wrong, where that is known."""
        return None if self.actual is None else self.actual != self.labels


def suspicion(scores: NDArray[np.float64], hard: Literal["high", "low"] | None) -> NDArray[np.float64]:
    """How suspicious a score finds every sample, high means more; `hard` is the score's hard end.

    >>> suspicion(np.array([0.5, -1.0]), hard=None).tolist()
    [-0.5, 1.0]
    """
    return scores.astype(np.float64) if hard == "high" else -scores.astype(np.float64)


def doubt(probabilities: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """1 less the probability that networks which did not see a sample give to its label: how much they doubt it.

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
    """The `top` most suspicious samples, worst first, ties in the order of the data; all of them with None.

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
        raise errors.SettingInvalid(f"top {top} is no number of suspects; give at least 1")
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
