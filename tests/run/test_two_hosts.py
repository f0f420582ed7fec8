"""Two hosts on one run directory: processes that do not see each other's numbers, as the lease takes hosts to be.

Each is in a namespace of processes and of names of its own (`unshare`), and shares the directory alone.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moso.storage.lease import read_holder

RUN = [
    *("-m", "moso", "run", "--dataset", "digits", "--model", "mlp-w8", "--partitions", "2", "--time-steps", "2"),
    *("--seeds", "1", "--ratio", "0.5", "--method", "moso", "--workers", "1", "--checkpoint-seconds", "0", "--quiet"),
    *("--epochs", "60", "--out"),
]
RESULTS = ("run.toml", "scores.parquet", "selections.parquet", "evaluation.parquet")


def on_host(name: str, *command: str) -> list[str]:
    """A command on a host of this name; `--kill-child` ends all of it with its first process."""
    script = f'hostname {name} && exec "$@"'
    return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "sh", "-c", script, "sh", *command]


@pytest.fixture
def hosts():
    """Processes that were begun, which end with the test."""
    if shutil.which("unshare") is None or subprocess.run(on_host("one", "true"), capture_output=True).returncode:
        pytest.skip("this process may not make namespaces (unshare, as root)")
    begun: list[subprocess.Popen[str]] = []
    yield begun
    for process in begun:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def held_by(out: Path, process: "subprocess.Popen[str]"):
    """The holder of the run, once there is one."""
    deadline = time.monotonic() + 600
    while (holder := read_holder(out / ".lock")) is None:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nobody took the run in ten minutes"
        time.sleep(0.05)
    return holder


@pytest.mark.long
def test_the_second_host_is_refused_and_goes_on_when_the_first_is_gone(tmp_path, hosts):
    out = tmp_path / "run"
    first = subprocess.Popen(
        on_host("one", sys.executable, *RUN, str(out)), start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    hosts.append(first)
    holder = held_by(out, first)
    assert holder.host == "one"
    os.kill(first.pid, 0)
    second = subprocess.run(on_host("two", sys.executable, *RUN, str(out)), capture_output=True, text=True)
    assert second.returncode == 2, second.stderr
    assert "another moso is working" in second.stderr
    assert "on one" in second.stderr
    assert first.poll() is None, "the first ended too soon to say anything"
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    third = subprocess.run(on_host("two", sys.executable, *RUN, str(out)), capture_output=True, text=True)
    assert third.returncode == 0, third.stderr
    assert "held by a moso on one" in third.stderr
    alone = tmp_path / "alone"
    subprocess.run([sys.executable, *RUN, str(alone)], check=True)
    assert {name: (out / name).read_bytes() for name in RESULTS} == {
        name: (alone / name).read_bytes() for name in RESULTS
    }
