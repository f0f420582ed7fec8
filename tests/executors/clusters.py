"""Runs on Ray as a user starts them, and what of a run must be the same whoever did the work."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from moso.results import RunDirectory
from moso.run.heartbeat import running

FLAGS = [
    *("--model", "convnet-w4", "--partitions", "2", "--time-steps", "3", "--seeds", "1", "--ratio", "0.5"),
    *("--method", "moso", "--shard-size", "400"),
]

_STARTED: list["subprocess.Popen[str]"] = []


def command(out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "moso", "run", *FLAGS, "--out", str(out), "--checkpoint-seconds", "0", *more]


def begun(out: Path, *more: str) -> "subprocess.Popen[str]":
    """A run in a process group of its own; whatever of it is left after a test is ended (`end_all`)."""
    process = subprocess.Popen(command(out, *more), start_new_session=True, stderr=subprocess.PIPE, text=True)
    _STARTED.append(process)
    return process


def end_all() -> None:
    """End the process groups of all runs that a test began, so that a test that failed leaves nothing to the next."""
    while _STARTED:
        process = _STARTED.pop()
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stderr is not None:
            process.stderr.close()


def finished(process: "subprocess.Popen[str]", seconds: float = 1200) -> None:
    _, said = process.communicate(timeout=seconds)
    assert process.returncode == 0, said


def results(root: Path) -> dict[str, bytes]:
    """All that a run found, by file."""
    patterns = ("scores.parquet", "selections.parquet", "evaluation.parquet", "run.toml", "scores/*", "terms/*/*")
    patterns += ("trajectory/*/*", "state/*/*.safetensors")
    found = {str(path.relative_to(root)): path.read_bytes() for one in patterns for path in root.glob(one)}
    assert len(found) > 15
    return found


def wait_until(what, process: "subprocess.Popen[str]", seconds: float = 900):
    """What `what()` gives as soon as it is something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"it did not happen; the run ended with {process.poll()}")


def at_work(out: Path, stage: str) -> list[int]:
    """The processes at work on pieces of a stage, as they left word."""
    signs = [sign for sign in running(RunDirectory(out)) if sign.stage.startswith(stage)]
    return [sign.process for sign in signs if alive(sign.process)]


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
