"""`median`: keep the scores nearest to the median, without either extreme.

    by = "score":  the smallest |score - median|
    by = "rank":   the middle of the order, ranks around (N - 1) / 2: as many below as above the median, to within one

With the score `moderate` (distance to the class centre) this is Moderate: the paper takes distances close to the
median, the authors' code takes the middle of the order. All classes together as in the source, or class by class.
O(N log N).

Source: Xia et al., Moderate Coreset: A Universal Method of Data Selection, ICLR 2023.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.selection.classes import ClassSettings, per_class
from moso.selection.problem import Problem


class MedianSettings(ClassSettings):
    """Settings of `median`: distance by score or by rank, together or class by class."""

    by: Literal["score", "rank"] = Field("score", description="nearness in score, or in rank")


def median(problem: Problem, settings: MedianSettings) -> NDArray[np.int64]:
    """Return the positions of the `budget` samples around the median score, of all samples or of each class."""
    return per_class(problem, "median", settings.classes, lambda part: _middle(part, settings.by))


def _middle(problem: Problem, by: str) -> NDArray[np.int64]:
    values = problem.scores
    if by == "rank":
        values = np.empty(len(problem))
        values[np.argsort(problem.scores, kind="stable")] = np.arange(len(problem))
    distance = np.abs(values - np.median(values))
    return np.argsort(distance, kind="stable")[: problem.budget]
