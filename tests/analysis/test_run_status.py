"""`moso status`: what another terminal sees."""

import json
import time

import pytest
from typer.testing import CliRunner

from moso.analysis.run_status import status
from moso.cli.main import app
from moso.errors import MosoError
from moso.executors import InProcess
from moso.results import RunDirectory
from moso.run.evidence_pieces import ScorePartition
from moso.run.heartbeat import heartbeat, running
from moso.run.pieces import perform
from moso.run.stages import begin, score_stage, train_stage
from refusals import refusal


def standing(directory: RunDirectory) -> dict[str, object]:
    return {stage.name: stage for stage in status(directory).stages}


def seen(root, *flags: str) -> str:
    result = CliRunner().invoke(app, ["status", str(root), *flags], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_a_run_is_seen_before_while_and_after_its_stages(small_run):
    job = small_run(epochs=2)
    with job.directory.locked():
        begin(job)
        before = standing(job.directory)
        assert not any(stage.complete or stage.pieces for stage in before.values())
        train_stage(job, InProcess())
        between = standing(job.directory)
        assert between["train"].complete
        assert (between["train"].pieces, between["train"].done) == (2, 2)
        assert not between["score"].complete
        assert "last heartbeat" in seen(job.directory.root)
        score_stage(job, InProcess())
    after = standing(job.directory)
    assert after["score"].complete
    assert after["score"].seconds > 0
    text = seen(job.directory.root)
    assert ": idle" in text
    assert "complete" in text
    assert "not started" in text


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until somebody moves it on; returns what does."""
    now = [time.time()]
    for name in ("time", "monotonic"):
        monkeypatch.setattr(time, name, lambda: now[0])

    def passes(seconds: float) -> None:
        now[0] += seconds

    return passes


def test_a_piece_at_work_is_seen_with_how_far_it_is_and_who_does_it(small_run, clock):
    job = small_run()
    with job.directory.locked():
        begin(job)
        job.directory.event("begun", stage="train", pieces=4)
        clock(2.0)
        job.directory.event("measured", what="train", piece="seed-0/part-000", seconds=1.0, peak=None)
        with heartbeat(job.directory, "train", "seed-0/part-001", lambda *_: None, seconds=0) as progress:
            progress("surrogate 2/2", 1, 4)
            clock(1.0)
            progress("surrogate 2/2", 2, 4)
            [one] = running(job.directory)
            assert (one.label, one.done, one.total) == ("surrogate 2/2", 2, 4)
            stage = standing(job.directory)["train"]
            assert (stage.done, stage.pieces) == (1, 4)
            # One piece and a half of four in three seconds.
            assert stage.seconds_left == pytest.approx(3.0 * 2.5 / 1.5, rel=1e-3)
            assert "surrogate 2/2: 50%" in seen(job.directory.root)
        assert running(job.directory) == []


def test_progress_passes_through_to_whoever_wants_it(small_run):
    job, told = small_run(), []
    with heartbeat(RunDirectory(job.directory.root), "train", "a", lambda *said: told.append(said)) as progress:
        progress("a", 1, 2)
    assert told == [("a", 1, 2)]


def test_a_failure_is_seen_with_its_sentence(small_run, monkeypatch):
    def fail(*_: object) -> None:
        raise MosoError("sample 7 is broken")

    monkeypatch.setattr("moso.run.evidence_pieces.score_partition", fail)
    job = small_run()
    with job.directory.locked():
        begin(job)
        job.directory.event("begun", stage="score", pieces=2)
        with pytest.raises(MosoError):
            perform(job, ScorePartition(0, 0), lambda *_: None)
    assert standing(job.directory)["score"].failures == ("seed-0/part-000/score: sample 7 is broken",)
    assert "failed: seed-0/part-000/score: sample 7 is broken" in seen(job.directory.root)


def test_events_of_several_machines_are_one_story(small_run, clock):
    job = small_run()
    with job.directory.locked():
        begin(job)
        for number, name in enumerate(("", "near-1", "far-2", "")):
            clock(1.0)
            RunDirectory(job.directory.root, name).event(
                "computed", stage="train", piece="a", seconds=1.5, number=number
            )
    assert job.directory.seconds("train") == {"a": 6.0}
    assert [event["number"] for event in job.directory.events() if event["event"] == "computed"] == [0, 1, 2, 3]


def test_status_as_json_says_everything(small_run):
    job = small_run()
    with job.directory.locked():
        begin(job)
    found = json.loads(seen(job.directory.root, "--json"))
    assert [stage["name"] for stage in found["stages"]] == ["train", "score", "select", "evaluate"]
    assert found["holder"] is None


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with refusal("not-a-run", "run.toml"):
        status(RunDirectory(tmp_path))


def test_tensorboard_reads_the_losses_that_the_history_has(small_run, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    job = small_run(epochs=3)
    with job.directory.locked():
        begin(job)
        train_stage(job, InProcess())
    seen(job.directory.root, "--tensorboard", str(tmp_path / "board"))
    board = accumulator.EventAccumulator(str(tmp_path / "board"))
    board.Reload()
    losses = [scalar.value for scalar in board.Scalars("loss/seed-0/part-000")]
    history = json.loads((job.directory.root / "state/part-000/history.json").read_text())
    assert losses == pytest.approx(history["loss"], abs=1e-5)
    assert [scalar.step for scalar in board.Scalars("loss/seed-0/part-000")] == [1, 2, 3]
