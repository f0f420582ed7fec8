"""The scores there are, by name, and the evidence each of them needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moso.errors import unknown_name
from moso.evidence import PartitionTerms
from moso.scores.moso import Form, moso
from moso.scores.moso_rank import moso_rank
from moso.scores.moso_standardised import moso_standardised
from moso.scores.random import random

Evidence = Literal["terms", "none"]


@dataclass(frozen=True)
class ScoreInput:
    """All evidence a score may ask for, a partition at a time."""

    keys: NDArray[np.uint64]
    partitions: Sequence[NDArray[np.int64]]
    terms: Sequence[PartitionTerms]
    form: Form
    seed: int


@dataclass(frozen=True)
class Score:
    """A named score: its evidence in, one float a sample out, in dataset order; high means keep."""

    name: str
    description: str
    needs: Evidence
    compute: Callable[[ScoreInput], NDArray[np.float64]]


def _per_partition(
    of: Callable[[PartitionTerms, Form], NDArray[np.float64]],
) -> Callable[[ScoreInput], NDArray[np.float64]]:
    def compute(given: ScoreInput) -> NDArray[np.float64]:
        scores = np.full(len(given.keys), np.nan)
        for positions, terms in zip(given.partitions, given.terms, strict=True):
            scores[positions] = of(terms, given.form)
        return scores

    return compute


SCORES = {
    score.name: score
    for score in (
        Score("moso", "Proposition 1.1: agreement with the others' mean gradient", "terms", _per_partition(moso)),
        Score("moso-standardised", "MoSo, every time step on one scale", "terms", _per_partition(moso_standardised)),
        Score("moso-rank", "MoSo by rank at every time step", "terms", _per_partition(moso_rank)),
        Score("random", "nothing: a uniform number a sample", "none", lambda given: random(given.keys, given.seed)),
    )
}


def find_score(name: str) -> Score:
    """The score of this name.

    >>> find_score("moso-rank").needs
    'terms'
    """
    if name not in SCORES:
        raise unknown_name("score", name, SCORES)
    return SCORES[name]
