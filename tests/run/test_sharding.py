"""Scoring in shards: the same scores, wherever the shards are."""

import numpy as np
import pytest

import moso
from moso.configuration import Configuration
from moso.executors import InProcess, LocalProcesses
from moso.run.sharding import sharded_rounds
from moso.run.stages import begin, gather, score_stage, train_stage
from refusals import refusal


def scored(job, executor=None) -> moso.Run:
    with job.directory.locked():
        begin(job)
        train_stage(job, executor or InProcess())
        score_stage(job, executor or InProcess())
    return moso.Run.open(job.directory.root)


def terms(run: moso.Run) -> dict[str, bytes]:
    root = run.directory.root
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.glob("terms/*/*.npz"))}


@pytest.fixture(scope="module")
def settings():
    return {"model": "convnet-w4", "epochs": 2, "partitions": 2, "time_steps": 2}


@pytest.mark.parametrize("shard_size", [100, 719, 5000])
def test_scores_do_not_depend_on_shards(small_run, settings, shard_size):
    whole = scored(small_run("whole", **settings)).scores()["moso"]
    run = scored(small_run("sharded", **settings, shard_size=shard_size))
    np.testing.assert_allclose(run.scores()["moso"], whole, rtol=0, atol=1e-6 * np.abs(whole).max())
    assert not list(run.directory.root.rglob("shards"))


def test_shards_in_other_processes_give_the_same_bytes(small_run, settings):
    here = scored(small_run("here", **settings, shard_size=200))
    with LocalProcesses(2) as processes:
        there = scored(small_run("there", **settings, shard_size=200), processes)
    assert terms(here) == terms(there)
    assert (here.directory.root / "scores.parquet").read_bytes() == (
        there.directory.root / "scores.parquet"
    ).read_bytes()


class Killed(InProcess):
    """Stops after some pieces, as a kill would."""

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.left = pieces

    def run(self, job, pieces):
        for piece in pieces:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            super().run(job, [piece])


def test_scoring_goes_on_after_a_kill_between_any_two_pieces(small_run, settings):
    settings = {**settings, "partitions": 1, "shard_size": 800}
    job = small_run("whole", **settings)
    undisturbed = terms(scored(job))
    pieces = sum(map(len, sharded_rounds(job)))
    assert pieces == 2 * (2 + 1 + 2 + 1)
    job = small_run("killed", **settings)
    with job.directory.locked():
        begin(job)
        train_stage(job, InProcess())
        for _ in range(pieces - 1):
            with pytest.raises(KeyboardInterrupt):
                gather(job, Killed(1), frozenset({"terms"}))
        gather(job, Killed(1), frozenset({"terms"}))
    assert terms(moso.Run.open(job.directory.root)) == undisturbed


def test_shards_are_for_exact_scoring():
    with refusal("settings-conflict", "shard_size", 10):
        Configuration.resolve({"shard_size": 10, "estimator": "sketched"})
