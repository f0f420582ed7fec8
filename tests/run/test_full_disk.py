"""A disk without room ends a run with one sentence and exit code 2; what was complete is kept, and nothing is left."""

import resource
import subprocess
import sys

import pytest

from moso.files import sweep

COMMAND = [
    *("-m", "moso", "run", "--model", "mlp-w32", "--epochs", "1", "--partitions", "2", "--time-steps", "2"),
    *("--seeds", "1", "--ratio", "0.5", "--method", "moso", "--workers", "1", "--quiet", "--checkpoint-seconds", "0"),
]


def limited(size):
    """No file may be larger, which is what a full disk looks like to whoever writes one."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("size", [4_000, 20_000])
def test_one_sentence_and_the_same_command_goes_on(tmp_path, size):
    command = [sys.executable, *COMMAND, "--out", str(tmp_path / "run")]
    full = subprocess.run(command, preexec_fn=limited(size), capture_output=True, text=True)
    assert full.returncode == 2, full.stderr
    assert "Traceback" not in full.stderr
    assert "what was complete is kept" in full.stderr
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert not [path for path in (tmp_path / "run").rglob(".*") if "tmp" in path.name]


def test_temporary_files_of_killed_writers_are_swept(tmp_path):
    (tmp_path / "trajectory").mkdir()
    for name in (".tmpAb3dE9", ".x.moso-tmp"):
        (tmp_path / "trajectory" / name).write_text("cut off")
    (tmp_path / ".tmpkeep").write_text("another's")
    sweep(tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [".tmpkeep"]
