"""Folds of the training data, the evidence that is left when one is held out, and what a candidate keeps of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from moso.configuration.candidates import Candidate, candidates
from moso.configuration.class_mix import fitting_mix
from moso.data.input_rows import are_vectors, input_rows
from moso.evidence_kinds import EvidenceKind
from moso.evidence_kinds.cross_terms import CROSS_TERMS_ALL
from moso.run.job import Job
from moso.run.seed_evidence import SeedEvidence
from moso.selection import select

T = TypeVar("T")
# The share of the training data that is held out at once, roughly.
HELD_OUT = 0.2


def folds(partitions: int) -> list[tuple[int, ...]]:
    """Return the partitions that each fold consists of: whole partitions, about a fifth of the data per fold.

    A fold is made of whole partitions, so that the surrogates of the others have not seen it.

    Example:
        >>> folds(5), folds(3), [len(fold) for fold in folds(10)]
        ([(0,), (1,), (2,), (3,), (4,)], [(0,), (1,), (2,)], [2, 2, 2, 2, 2])
    """
    size = max(1, round(HELD_OUT * partitions))
    return [tuple(range(start, start + size)) for start in range(0, partitions - size + 1, size)]


@dataclass(frozen=True)
class EvidenceWithout(SeedEvidence):
    """The evidence of one seed as if the partitions of a fold did not exist.

    Step terms of a partition come from its own samples and surrogate alone. Out-of-sample terms lose the judges that
    were trained on the fold.
    """

    fold: tuple[int, ...] = ()

    def read(self, kind: EvidenceKind[T], column: str = "") -> T:
        """Read evidence of a kind, without what the surrogates of the fold say."""
        found = super().read(kind, column)
        if kind is not CROSS_TERMS_ALL:
            return found
        judges = cast("Sequence[object]", found)
        return cast(T, [judge for part, judge in enumerate(judges) if part not in self.fold])


def possible_candidates(job: Job) -> list[Candidate]:
    """Return the candidates of a run, in the order of preference among level ones."""
    c, train = job.configuration, job.data.train
    vectors = are_vectors(train, c.memory_limit_bytes)
    return candidates(c, vectors=vectors, unequal=fitting_mix(train.labels) == "as-is")


def kept_samples(
    evidence: SeedEvidence,
    candidate: Candidate,
    ratio: float,
    seed: int,
    among: NDArray[np.int64],
    keep: NDArray[np.int64] | None = None,
    drop: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Return the sorted positions that a candidate keeps of some samples.

    Args:
        evidence: The evidence of the seed; in a trial, without the held-out fold.
        candidate: The candidate.
        ratio: Share of `among` to remove.
        seed: Seed of random draws.
        among: Sorted positions of the samples to choose from.
        keep: Positions that are kept in any case.
        drop: Positions that are removed in any case.
    """
    choice, train = candidate.choice, evidence.job.data.train
    scores = None if choice.score is None else choice.score(evidence, choice.score_settings)[among]
    hard = None if choice.score is None else choice.score.hard
    kept = select(
        scores,
        ratio=ratio,
        selector=choice.selector,
        seed=seed,
        labels=None if evidence.labels is None else evidence.labels[among],
        ids=train.ids.to_numpy(zero_copy_only=False)[among],
        features=input_rows(train, among) if candidate.on_inputs else None,
        hard=hard,
        min_per_class=choice.min_per_class,
        settings=choice.settings.model_dump(),
        always_keep=() if keep is None else np.searchsorted(among, keep),
        always_drop=() if drop is None else np.searchsorted(among, drop),
    )
    return among[kept]
