"""`Problem`: the input of a selector."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso import errors
from moso.columns import Array
from moso.data.samples import id_keys
from moso.scores.score import Hard
from moso.selection.feature_rows import Features


@dataclass(frozen=True)
class Problem:
    """Scores, the budget, and the other evidence that a selector declared.

    Samples are in the order of their ids, whatever the order of the user's rows: a stable sort breaks ties by id, and
    results do not depend on the order of the data.

    Attributes:
        scores: One float per sample, high means keep, shape ``[samples]``.
        budget: Number of samples to keep.
        labels: One class number per sample, without gaps.
        rows: Evidence of one row of numbers per sample, by name.
        probability: Mean probability of each sample's label during training.
        class_error: One error per class, shape ``[classes]``.
        hard: The end of the scores where the hard samples are.
        seed: Seed of random draws.
        ids: One id per sample; None means the position.
        label_names: The label of each class number as the user gave it, ascending; None means the number itself.
    """

    scores: NDArray[np.float64]
    budget: int
    labels: NDArray[np.int64] | None = None
    rows: Mapping[str, Features] = field(default_factory=dict)
    probability: NDArray[np.float64] | None = None
    class_error: NDArray[np.float64] | None = None
    hard: Hard | None = None
    seed: int = 0
    ids: Array | None = None
    label_names: Array | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """One 64-bit key per sample, a hash of its id (or position); random draws are addressed by key."""
        return id_keys(pa.array(np.arange(len(self)) if self.ids is None else self.ids))

    @property
    def ratio(self) -> float:
        """The share of samples that is removed."""
        return 1 - self.budget / len(self)

    def subset(self, positions: NDArray[np.int64], budget: int) -> "Problem":
        """Return the problem of some of the samples.

        Args:
            positions: Positions of the samples, ascending.
            budget: Number of these samples to keep.

        Example:
            >>> whole = Problem(np.array([3.0, 1.0, 2.0]), 2)
            >>> part = whole.subset(np.array([0, 2]), 1)
            >>> part.scores, bool((part.keys == whole.keys[[0, 2]]).all())
            (array([3., 2.]), True)
        """
        return replace(
            self,
            scores=self.scores[positions],
            budget=budget,
            labels=None if self.labels is None else self.labels[positions],
            rows={name: one.subset(positions) for name, one in self.rows.items()},
            probability=None if self.probability is None else self.probability[positions],
            ids=positions if self.ids is None else self.ids[positions],
        )

    def labels_for(self, selector: str) -> NDArray[np.int64]:
        """Return the labels.

        Raises:
            EvidenceMissing: There are none; the message names the selector.
        """
        if self.labels is None:
            raise lacking(selector, "labels")
        return self.labels

    def rows_for(self, selector: str, evidence: str = "features") -> Features:
        """Return the rows of this evidence.

        Raises:
            EvidenceMissing: There are none; the message names the selector.
        """
        if evidence not in self.rows:
            raise lacking(selector, evidence)
        return self.rows[evidence]

    def finite_scores(self, selector: str) -> NDArray[np.float64]:
        """Return the scores, for selectors that do arithmetic with them.

        Raises:
            ValuesNotFinite: A score is infinite.
        """
        if not np.isfinite(self.scores).all():
            first = int(np.argmin(np.isfinite(self.scores)))
            raise errors.ValuesNotFinite(
                f"selector {selector!r} computes with scores, but one of them is {self.scores[first]} is among them"
            )
        return self.scores


# The argument of `select` for each kind of evidence, for error messages.
_ARGUMENTS = {
    "scores": "scores, one number per sample",
    "labels": "labels=, one class per sample",
    "features": "features=, one row of numbers per sample",
    "probability": "probability=, the mean probability that training gave each sample's label",
    "class-error": "class_error=, the error of each class on held-out data",
    "probabilities": "evidence={'probabilities': ...}, the class probabilities of a trained network per sample",
    "influences": "influences=, what removing each sample does to the parameters, one row of numbers per sample",
    "hard": "hard='high' or hard='low', the end of the scores where the hard samples are",
}


def lacking(selector: str, evidence: str) -> errors.MosoError:
    """Return the error for evidence that a selector needs and that was not given.

    Example:
        >>> str(lacking("balanced", "labels"))
        "selector 'balanced' needs labels=, one class per sample"
    """
    other = f"evidence={{{evidence!r}: ...}}, one row of numbers per sample"
    return errors.EvidenceMissing(f"selector {selector!r} needs {_ARGUMENTS.get(evidence, other)}")
