"""Pieces of work: small values that any process can be given, and what each may look at."""

import pickle

import pytest

from moso.results.retrainings import Retraining
from moso.run.evidence_pieces import MeasureEvidence, ScorePartition
from moso.run.network_pieces import TrainReference, TrainSurrogate
from moso.run.retraining_piece import Retrain
from moso.run.sharding import DotsOfShard, MeanOfShards, SumShard, TermsOfShards
from moso.run.work_plan import measuring, training

RETRAINING = Retraining("moso", "top", 0.5, 0, "convnet", "quick", "epochs")
EVERY = [
    (TrainSurrogate(0, 1, ("margin",), final=True), "train", "train", "seed-0/part-001"),
    (TrainReference(2, 1), "reference", "train", "seed-2/reference-01"),
    (ScorePartition(0, 1), "score", "score", "seed-0/part-001/score"),
    (MeasureEvidence(0, "adjoint", 1), "adjoint", "score", "seed-0/part-001/adjoint"),
    (MeasureEvidence(0, "early-norms", 1), "early-norms", "score", "seed-0/reference-01/early-norms"),
    (MeasureEvidence(0, "final", 0, ("gap",)), "final", "score", "seed-0/reference-00/final"),
    (SumShard(0, 1, 7, 3), "score-sums", "score", "seed-0/part-001/step-00000007/score-sums-00003"),
    (MeanOfShards(0, 1, 7), "score-mean", "score", "seed-0/part-001/step-00000007/score-mean"),
    (DotsOfShard(0, 1, 7, 3), "score-dots", "score", "seed-0/part-001/step-00000007/score-dots-00003"),
    (TermsOfShards(0, 1, 7), "score-terms", "score", "seed-0/part-001/step-00000007/score-terms"),
    (Retrain(RETRAINING), "evaluate", "evaluate", RETRAINING.digest()),
]


@pytest.mark.parametrize(("piece", "kind", "stage", "name"), EVERY)
def test_a_piece_is_a_small_value_with_the_name_that_events_know(piece, kind, stage, name):
    assert (piece.kind, piece.stage, piece.name) == (kind, stage, name)
    packed = pickle.dumps(piece)
    assert pickle.loads(packed) == piece  # noqa: S301 - what processes of one machine send each other
    assert len(packed) < 500


def test_what_is_large_is_for_the_pieces_of_its_partition_alone():
    step = "trajectory/part-00{}/step-00000001.safetensors"
    of_one = [piece for piece, *_ in EVERY if "part-001" in piece.name]
    assert all(piece.wants(step.format(1)) and not piece.wants(step.format(0)) for piece in of_one)
    others = [piece for piece, *_ in EVERY if piece not in of_one]
    assert not any(piece.wants(step.format(1)) for piece in others)
    assert all(piece.wants("scores.parquet") for piece, *_ in EVERY)


def test_of_what_shards_leave_each_other_a_piece_sees_what_it_reads():
    left = [f"state/part-001/shards/step-00000007/{what}-00000.safetensors" for what in ("sums", "mean", "dots")]
    seen = {piece.kind: [piece.wants(file) for file in left] for piece, *_ in EVERY}
    assert seen["score-mean"] == [True, False, False]
    assert seen["score-dots"] == [False, True, False]
    assert seen["score-terms"] == [True, False, True]
    assert seen["score-sums"] == seen["score"] == seen["evaluate"] == [False, False, False]


def test_the_plan_is_what_the_kinds_say(small_run):
    job = small_run(initialisations=2)
    needs = frozenset({"labels", "terms", "adjoint", "features", "predictions", "early-norms", "final:gap"})
    assert [piece.name for piece in measuring(job, needs)] == [
        "seed-0/reference-00/features",
        "seed-0/reference-00/predictions",
        *(f"seed-0/part-00{part}/adjoint" for part in range(2)),
        *(f"seed-0/part-00{part}/score" for part in range(2)),
        *(f"seed-0/reference-0{number}/early-norms" for number in range(2)),
        "seed-0/reference-00/final",
    ]
    reference, first, _, other = training(job, needs)
    assert (reference, other) == (TrainReference(0, 0), TrainReference(0, 1))
    assert first == TrainSurrogate(0, 0, final=True, replay=True)
    assert training(job, frozenset({"labels"})) == []
