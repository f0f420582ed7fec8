"""The plan: which networks to train and which evidence to measure, given the names of the needed evidence."""

from moso.evidence_kinds import EvidenceKind
from moso.evidence_kinds.registry import averages, columns, needed_kinds, needs_reference, needs_surrogates
from moso.evidence_kinds.step_terms import TERMS
from moso.evidence_kinds.training_dynamics import DYNAMICS
from moso.run.evidence_pieces import MeasureEvidence, ScorePartition
from moso.run.job import Job
from moso.run.network_pieces import TrainReference, TrainSurrogate
from moso.run.pieces import Piece


def training(job: Job, needs: frozenset[str]) -> list[Piece]:
    """Return the networks to train, the longest training first."""
    c, found = job.configuration, list[Piece]()
    reference, shared = needs_reference(needs), c.partitions == 1
    recorded = columns(needs, DYNAMICS)
    of_surrogates = {kind.moment for kind in needed_kinds(needs) if kind.network in ("surrogate", "surrogates")}
    final, replay, also = "final" in of_surrogates, "replay" in of_surrogates, reference and shared
    for seed in c.all_seeds():
        if reference and not shared:
            found.append(TrainReference(seed, 0, recorded))
        if needs_surrogates(needs) or also:
            left = (recorded, True, True) if also else ((), False, final)
            found += [TrainSurrogate(seed, part, *left, replay=replay) for part in range(c.partitions)]
        if averages(needs):
            found += [TrainReference(seed, number) for number in range(1, c.initialisations)]
    return found


def measuring(job: Job, needs: frozenset[str]) -> list[Piece]:
    """Return the evidence to measure from trained networks."""
    c, kinds = job.configuration, [kind for kind in needed_kinds(needs) if kind.is_measured]
    return [
        _piece(kind, seed, index, columns(needs, kind))
        for seed in c.all_seeds()
        for kind in kinds
        for index in range(kind.pieces(c))
    ]


def _piece(kind: EvidenceKind[object], seed: int, index: int, asked: tuple[str, ...]) -> Piece:
    return ScorePartition(seed, index) if kind is TERMS else MeasureEvidence(seed, kind.name, index, asked)
