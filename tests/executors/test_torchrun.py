"""Several processes on one surrogate: what one process finds, up to rounding."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import moso
from moso.errors import MosoError
from moso.evidence import read_state
from moso.executors import TorchRun

SETTINGS = ["--model", "mlp-w16", "--epochs", "2", "--partitions", "1", "--time-steps", "3", "--seeds", "1"]
SETTINGS += ["--ratio", "0.5", "--method", "moso", "--quiet"]


def together(*command: str) -> subprocess.CompletedProcess[str]:
    """A command of moso's in two processes."""
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "moso"]
    return subprocess.run(
        [*start, *command, "--executor", "torchrun"],
        check=False,
        capture_output=True,
        text=True,
        timeout=1200,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    out = tmp_path_factory.mktemp("alone") / "run"
    subprocess.run([sys.executable, "-m", "moso", "run", *SETTINGS, "--out", str(out), "--workers", "1"], check=True)
    return moso.Run.open(out)


def test_two_processes_train_and_score_what_one_does(tmp_path, alone):
    out = tmp_path / "run"
    done = together("run", *SETTINGS, "--shard-size", "400", "--out", str(out))
    assert done.returncode == 0, done.stderr
    run = moso.Run.open(out)
    for one, other in zip(alone.trajectory(0), run.trajectory(0), strict=True):
        assert one.step == other.step
        for name, value in one.state().items():
            np.testing.assert_allclose(other.state()[name], value, rtol=0, atol=1e-4)
    assert {event["event"] for event in run.directory.events()} >= {"begun", "measured", "complete"}
    assert len(run.evaluation()) == len(alone.evaluation())
    final = read_state(out / "state" / "part-000" / "final.safetensors")[0]
    assert all("module." not in name for name in final)
    # The same trajectory scored by one process, whole.
    other = tmp_path / "scored-alone"
    shutil.copytree(out, other)
    shutil.rmtree(other / "terms")
    shutil.rmtree(other / "scores")
    text = (other / "run.toml").read_text().partition("\n")[2]  # without the checksum, because it is changed by hand
    (other / "run.toml").write_text(text.replace("shard_size = 400", "shard_size = 0"))
    subprocess.run([sys.executable, "-m", "moso", "score", str(other), "--workers", "1", "--quiet"], check=True)
    scores, expected = run.scores()["moso"], moso.Run.open(other).scores()["moso"]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("risk", [(), ("--risk", "validation", "--validation-share", "0.1")])
def test_a_partition_is_scored_by_both_with_sums_that_are_reduced(tmp_path, risk):
    trained, out = tmp_path / "trained", tmp_path / "run"
    one = [sys.executable, "-m", "moso"]
    subprocess.run([*one, "train", *SETTINGS, *risk, "--out", str(trained), "--workers", "1"], check=True)
    shutil.copytree(trained, out)
    done = together("score", str(out), "--quiet")
    assert done.returncode == 0, done.stderr
    subprocess.run([*one, "score", str(trained), "--workers", "1", "--quiet"], check=True)
    scores, expected = (moso.Run.open(run).scores()["moso"] for run in (out, trained))
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    events = moso.Run.open(out).directory.events()
    swept = [event for event in events if event["event"] == "computed" and event["stage"] == "score"]
    assert len(swept) == 2 * 3, "each step is swept by both processes"


def test_what_follows_single_samples_through_training_is_refused(tmp_path):
    done = together("run", *SETTINGS, "--method", "aum", "--out", str(tmp_path / "run"))
    assert done.returncode != 0
    assert "is not gathered from several processes" in done.stderr


def test_without_torchrun_there_is_nobody_to_work_with(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with pytest.raises(MosoError, match="torchrun --nproc-per-node 2 -m moso run"):
        TorchRun()
