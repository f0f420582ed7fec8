"""Ctrl-C ends a command with one line, and the same command goes on."""

import os
import signal
import subprocess
import sys
import time

import pytest

from moso.results import Run


@pytest.fixture(autouse=True)
def interruptible():
    """A shell starts what it puts into the background with SIGINT ignored, and commands would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


COMMAND = ("run", "--model", "mlp-w8", "--epochs", "12", "--partitions", "3", "--time-steps", "2", "--quick")


@pytest.mark.skipif(os.name == "nt", reason="process groups are sent signals in another way")
def test_ctrl_c_is_one_line_and_the_same_command_goes_on(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "moso", *COMMAND, "--workers", "2", "--out", str(out)]
    begun = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not list(out.glob("trajectory/*/step-*")) and begun.poll() is None:
        time.sleep(0.02)
    os.killpg(begun.pid, signal.SIGINT)  # what a terminal does
    _, said = begun.communicate(timeout=900)
    assert begun.returncode == 130
    assert said.strip().splitlines()[-1] == "moso: stopped; the same command resumes where it stopped"
    assert "Traceback" not in said
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Run.open(out).manifest["stages"]["evaluate"]["complete"]


def begun(tmp_path, *more):
    """A run of two workers whose pieces would take minutes, once it has recorded its first step."""
    out = tmp_path / "run"
    long = ("run", "--model", "mlp-w8", "--epochs", "4000", "--partitions", "2", "--time-steps", "3000", "--seeds", "1")
    command = [sys.executable, "-m", "moso", *long, "--workers", "2", "--out", str(out), "--quiet", *more]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not list(out.glob("trajectory/*/step-*")) and process.poll() is None:
        time.sleep(0.02)
    return out, process


@pytest.mark.skipif(os.name == "nt", reason="process groups are sent signals in another way")
def test_a_signal_to_the_leading_process_alone_does_not_wait_for_pieces(tmp_path):
    out, process = begun(tmp_path)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=900)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert not list(out.glob("state/part-*/history.json"))  # no piece was finished first


@pytest.mark.skipif(os.name == "nt", reason="open files cannot be removed")
def test_a_directory_that_is_removed_under_a_run_is_not_made_again(tmp_path):
    out, process = begun(tmp_path)
    out.rename(tmp_path / "moved")
    _, said = process.communicate(timeout=900)
    assert process.returncode == 2
    assert "Traceback" not in said
    assert not out.exists()
