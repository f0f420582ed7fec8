"""What a person sees while work goes on."""

import io
import os
import pty
import re
import subprocess
import sys

from moso.cli import display
from moso.cli.display import showing

RUN = [
    *(sys.executable, "-m", "moso", "run", "--model", "mlp-w8", "--epochs", "2", "--partitions", "2"),
    *("--time-steps", "2", "--seeds", "1", "--ratio", "0.5", "--method", "moso", "--workers", "1"),
]


def test_lines_are_plain_and_few(monkeypatch):
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr(display.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with showing(quiet=False) as progress:
        for step in range(1, 9):
            progress("surrogate 1/5, seed 0", step, 8)
        progress("a short piece", 1, 1)
        said = sys.stderr.getvalue()
    assert re.search(r"surrogate 1/5, seed 0: 50%, \d+ s left", said)
    assert "surrogate 1/5, seed 0: done in 21.0 s" in said
    assert "short" not in said
    assert "\x1b" not in said


def test_quiet_says_nothing(tmp_path):
    done = subprocess.run([*RUN, "--quiet", "--out", str(tmp_path / "run")], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


def test_a_terminal_gets_bars_and_a_pipe_gets_a_table(tmp_path):
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*RUN, "--out", str(tmp_path / "run")], stdout=subprocess.PIPE, stderr=follower, text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    table, _ = process.communicate()
    os.close(follower)
    drawn = os.read(leader, 1 << 16).decode(errors="replace")
    os.close(leader)
    assert process.returncode == 0
    assert "━" in drawn or "╸" in drawn
    assert "all data:" in table
    assert "surrogates" in table
    assert "whole command" in drawn
    assert re.search(r"\d+ of 8 pieces", drawn)  # 2 surrogates, 2 scorings; all data, moso, 2 random selections
    assert re.search(r"\d+ of \d+ steps", drawn)
    assert "\x1b" not in table
