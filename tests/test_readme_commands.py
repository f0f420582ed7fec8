"""The README's commands, and those of `make demo`, do what they say, and print no notice of anybody else's.

The commands are read from the two files, so a new one is tried as well. Settings that change nothing but the time it
takes are added to them.
"""

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

pytestmark = pytest.mark.skipif(find_spec("timm") is None, reason="the README's networks need the extra [vision]")

ROOT = Path(__file__).parents[1]
_SMALL = "--epochs 2 --partitions 3 --time-steps 2 --seeds 1 --workers 1 --quiet"
# What is added to a verb; the last of two equal flags counts.
_ADDED = {"run": _SMALL, "compare": _SMALL, "suspects": "--workers 1", "reproduce figure-1a": "--dry-run"}
_ALSO = "moso reproduce figure-1a --preset features"  # the command under the first picture


def commands() -> list[str]:
    """All of them in their order, without the comment behind them."""
    demo = re.findall(r"^\t\$\(BIN\)/(moso .*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    page = (ROOT / "README.md").read_text()
    readme = re.findall(r"^    (moso [a-z].*)$", page, flags=re.MULTILINE)
    # Inside sentences: whole commands, with flags and without placeholders in capitals.
    inside = [one for one in re.findall(r"`(moso [a-z][^`]* --[^`]*)`", page) if not re.search(r"\b[A-Z]{2,}\b", one)]
    return [command.partition("  #")[0].strip() for command in [*demo, *readme, *inside]]


def smaller(command: str) -> list[str]:
    """A command as it is tried: the same verb and flags, and less work."""
    words = shlex.split(command)[1:]
    added = next((flags for verb, flags in _ADDED.items() if " ".join(words).startswith(verb)), "")
    return [*words, *shlex.split(added)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data that the README speaks of."""
    root = tmp_path_factory.mktemp("readme")
    draw = np.random.default_rng(0)
    rows = []
    for number in range(60):
        name = ("cat", "dog")[number % 2]
        path = root / "my-images" / name / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(path)
        rows.append({"image": {"bytes": path.read_bytes(), "path": path.name}, "label": number % 2})
    pq.write_table(pa.Table.from_pylist(rows), root / "train.parquet")
    (root / "my-features").mkdir()
    for split, count in (("train", 90), ("test", 30)):
        labels = np.arange(count) % 3
        features = draw.normal(size=(count, 8)) + 2 * np.eye(8)[labels]
        np.save(root / "my-features" / f"{split}.npy", features.astype(np.float16))
        np.save(root / "my-features" / f"{split}_labels.npy", labels)
    return root


def ran(words: list[str], where: Path) -> tuple[str, str]:
    """What a command prints and what it complains of, with every warning shown that a program can show."""
    surroundings = {**os.environ, "PYTHONWARNINGS": "default", "MOSO_CACHE": str(where / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "moso", *words], cwd=where, env=surroundings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"moso {shlex.join(words)}: {done.stderr}"
    return done.stdout, done.stderr


def test_all_commands_run_and_nothing_else_is_said(folder: Path) -> None:
    """One test for all of them: later commands read what earlier ones wrote."""
    found = commands()
    assert len(found) >= 10, "the README's commands are not where this test looks for them"
    assert _ALSO in found
    notices = []
    for command in found:
        if "relabelled.csv" in command:
            # One label for each sample of the training split.
            rows = pq.read_table(folder / "train.parquet")["label"].to_pylist()
            (folder / "relabelled.csv").write_text("id,label\n" + "".join(f"{i},{row}\n" for i, row in enumerate(rows)))
        _, complaint = ran(smaller(command), folder)
        notices += [(command, line) for line in complaint.splitlines() if "arning" in line or "deprecated" in line]
    assert notices == []
    for written in (
        "runs/demo/report.html",
        "runs/demo-noise/report.html",
        "runs/digits/report.html",
        "runs/compared/report.html",
        "pruned",
    ):
        assert (folder / written).exists()
