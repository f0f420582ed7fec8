"""kill -9 at any moment, start again: the same bytes as an undisturbed run."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import moso
from killed_commands import CommandServer
from refusals import refusal

KILLS = 100
RESULTS = ("scores.parquet", "selections.parquet", "evaluation.parquet")
FLAGS = [
    *("--model", "convnet-w4", "--epochs", "3", "--partitions", "2", "--time-steps", "4", "--seeds", "1"),
    *("--ratio", "0.5", "--method", "moso", "--method", "moso-rank", "--label-noise", "0.1", "--augmentation", "crop"),
    *("--method", "tdds", "--method", "el2n", "--method", "herding"),
]


def command(out: Path, workers: int, *more: str) -> list[str]:
    flags = [*FLAGS, "--out", str(out), "--workers", str(workers), "--checkpoint-seconds", "0", "--quiet", *more]
    return [sys.executable, "-m", "moso", "run", *flags]


def results(root: Path) -> dict[str, bytes]:
    files = [*RESULTS, "scores/moso.parquet", "scores/moso-rank.json", "run.toml"]
    terms = sorted(path.relative_to(root) for path in root.glob("terms/*/*.npz"))
    trajectory = sorted(path.relative_to(root) for path in root.glob("trajectory/*/*.safetensors"))
    evidence = sorted(path.relative_to(root) for path in root.glob("*/*reference-*/*.np[yz]"))
    networks = sorted(path.relative_to(root) for path in root.glob("state/*/*.safetensors"))
    assert len(evidence) == 3  # one column, and the errors of two initialisations
    features = ["features/reference-00.npy", "features/reference-00.json"]
    return {
        str(name): (root / name).read_bytes() for name in [*files, *terms, *trajectory, *evidence, *networks, *features]
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    subprocess.run(command(out, 1), check=True)
    return results(out)


def kill_until_done(out: Path, workers: int, draw: random.Random, kills: int) -> int:
    """Start, let it live a random while after its first sign of work, kill -9; again and again; then let it finish.

    Returns how many of the kills met it at work.
    """
    met = 0
    for _ in range(kills):
        before = _signs(out)
        process = subprocess.Popen(command(out, workers), start_new_session=True)
        deadline = time.monotonic() + 600
        while _signs(out) == before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(draw.random() * 0.8)
        met += process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run(command(out, workers), check=True)
    return met


def _signs(out: Path) -> int:
    events = out / "events.jsonl"
    return events.stat().st_size if events.exists() else 0


@pytest.mark.parametrize(("workers", "kills"), [(1, 5), (2, 5)])
def test_killed_at_random_moments_the_run_ends_with_the_same_bytes(tmp_path, undisturbed, workers, kills):
    assert kill_until_done(tmp_path / "run", workers, random.Random(workers), kills) > 0
    assert results(tmp_path / "run") == undisturbed
    assert not list((tmp_path / "run").rglob("*.moso-tmp"))


@pytest.mark.long
def test_a_hundred_kills_at_random_moments_change_no_byte(tmp_path, undisturbed, capsys):
    """Every run is killed again and again, at work every time; a kill counts if its run ends with the same bytes."""
    draw, met, same, trial, whole, span = random.Random(7), 0, 0, 0, 0, 1.0
    with CommandServer() as server:
        while met < KILLS:
            out, kills, trial = tmp_path / str(trial), 0, trial + 1
            arguments = command(out, 2 if trial % 5 == 0 else 1)[3:]
            for _ in range(min(5, KILLS - met)):
                seconds = draw.random() * span
                ended = server.kill_after(tmp_path, seconds, *arguments, signs=lambda out=out: _signs(out))
                assert ended.code in (0, -signal.SIGKILL), ended
                kills += ended.code != 0
                # The machine may be slow or fast: runs that end before their kill say that kills come too late.
                span = span * 0.8 if ended.code == 0 else min(span * 1.05, 20.0)
            assert server.run(tmp_path, *arguments).code == 0
            identical = results(out) == undisturbed and not list(out.rglob("*.moso-tmp"))
            met, same, whole = met + kills, same + kills * identical, whole + identical
            shutil.rmtree(out)
            with capsys.disabled():
                print(f"\n{same} of {met} kills byte-identical, in {whole} of {trial} runs", end="", flush=True)
    with capsys.disabled():
        print(f"\n{same} of {KILLS} random kills byte-identical")
    assert same == met == KILLS


def test_run_toml_repeats_the_run_byte_for_byte(tmp_path, undisturbed):
    (tmp_path / "run.toml").write_bytes(undisturbed["run.toml"])
    again = [
        sys.executable,
        "-m",
        "moso",
        "run",
        str(tmp_path / "run.toml"),
        "--out",
        str(tmp_path / "again"),
        "--quiet",
    ]
    subprocess.run([*again, "--workers", "2"], check=True)
    assert results(tmp_path / "again") == undisturbed


def test_stages_one_by_one_give_the_same_bytes(tmp_path, undisturbed):
    out = tmp_path / "run"
    verbs = [
        ["train", *FLAGS, "--out", str(out)],
        *([verb, str(out)] for verb in ("score", "select", "evaluate", "report")),
    ]
    for verb in verbs:
        alone = ["--workers", "1"] if verb[0] in ("train", "score", "evaluate") else []
        subprocess.run([sys.executable, "-m", "moso", *verb, *alone, "--quiet"], check=True)
    assert results(out) == undisturbed
    assert (out / "report.html").stat().st_size > 1000


def test_a_worker_dies_with_the_run_that_made_it(tmp_path):
    process = subprocess.Popen(command(tmp_path / "run", 2, "--epochs", "400"), start_new_session=True)
    group, deadline = os.getpgid(process.pid), time.monotonic() + 600
    while len(_members(group)) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(_members(group)) >= 3  # itself and two workers
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 600  # on a busy machine a worker may still be importing
    while time.monotonic() < deadline:
        if not _members(group):
            return
        time.sleep(0.1)
    os.killpg(group, signal.SIGKILL)
    raise AssertionError("worker processes outlived the run that was killed")


def _members(group: int) -> list[int]:
    """The processes of a group that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, own, *_ = path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended while we looked
            continue
        if int(own) == group and state not in "ZX":
            found.append(int(path.parent.name))
    return found


def test_a_second_run_on_the_same_directory_is_refused(tmp_path):
    root = tmp_path / "run"
    first = moso.results.RunDirectory(root)
    with (
        first.locked(),
        refusal("run-locked", "out"),
        moso.results.RunDirectory(root).locked(),
    ):
        pass
    with first.locked():
        pass
