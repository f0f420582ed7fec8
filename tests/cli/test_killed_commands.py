"""`kill -9` during `compare`, `export`, `embed` and `reproduce`: the same command ends with the bytes of no kill."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from killed_commands import CommandServer, killed_until_done

SMALL = (
    *("--model", "mlp-w8", "--epochs", "2", "--partitions", "2", "--time-steps", "2", "--seeds", "1"),
    *("--ratio", "0.5", "--method", "moso", "--method", "el2n", "--workers", "1", "--quiet"),
)
# A table that `moso reproduce` knows as figure-1a, on digits and in seconds.
EXPERIMENT = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "experiments")!r})
from small_experiments import small
from moso.experiments import registry
registry.EXPERIMENTS["figure-1a"] = small()
"""
# A factory, which may have random weights: a network by name is refused without weights.
NETWORK = "moso.experiments.networks:resnet8"


@dataclass(frozen=True)
class Killed:
    """A command that is killed.

    Attributes:
        command: The command.
        found: All that it found, by file; without times, which differ.
        before: Whether a finished run is there, as `run`.
        setup: Code that its process runs first.
    """

    command: tuple[str, ...]
    found: Callable[[Path], dict[str, object]]
    before: bool = False
    setup: str = ""


def files(*patterns: str) -> Callable[[Path], dict[str, object]]:
    def found(root: Path) -> dict[str, object]:
        all_of_them = [path for pattern in patterns for path in root.glob(pattern) if path.is_file()]
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in all_of_them}

    return found


def rows_of_the_experiment(root: Path) -> dict[str, object]:
    lines = [json.loads(line) for line in (root / "docs/results/figure-1a.jsonl").read_text().splitlines()]
    times = {"finished", "seconds", "peak"}
    rows = {row["key"]: {name: value for name, value in row.items() if name not in times} for row in lines}
    assert len(rows) == len(lines)  # no cell twice
    runs = files("runs/reproduce/*/scores/*", "runs/reproduce/*/evaluation/*", "runs/reproduce/*/selections/*")(root)
    return {**rows, **runs}


RUN = ("run", *SMALL, "--dataset", "digits", "--out", "run")
KEPT = ("export", "run", "--ratio", "0.5", "--method", "moso", "--overwrite", "--quiet")
KILLED = {
    "compare": Killed(
        ("compare", *SMALL, "--dataset", "digits", "--out", "run"),
        files(
            *("run/*.parquet", "run/run.toml", "run/scores/*", "run/selections/*", "run/evaluation/*", "run/terms/*/*"),
            *("run/compare/comparison.[cpj]*", "run/compare/[ot]*.csv", "run/compare/correlations.csv"),
        ),
    ),
    "export-folder": Killed((*KEPT, "--format", "folder", "--with-test", "--out", "kept"), files("kept/**/*"), True),
    "export-parquet": Killed((*KEPT, "--format", "parquet-data", "--out", "k.parquet"), files("k.parquet"), True),
    "export-csv": Killed((*KEPT, "--out", "kept.csv"), files("kept.csv"), True),
    "embed": Killed(
        ("embed", "--dataset", "digits", "--network", NETWORK, "--batch-size", "64", "--out", "rows", "--quiet"),
        files("rows/**/*"),
    ),
    "reproduce": Killed(
        ("reproduce", "figure-1a", "--seeds", "1", "--quiet"), rows_of_the_experiment, False, EXPERIMENT
    ),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Callable[[str], Path]:
    """A new folder for a command, with what must be there before it."""
    finished = tmp_path_factory.mktemp("finished")

    def make(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        if KILLED[name].before:
            if not (finished / "run").exists():
                with CommandServer() as server:
                    assert server.run(finished, *RUN).code == 0
            shutil.copytree(finished / "run", folder / "run")
        return folder

    return make


def killed(name: str, place: Callable[[str], Path], kills: int, trials: int) -> tuple[int, int]:
    """Kill a command in several folders; return how many kills met it, and how many of those changed nothing."""
    one, draw, met, same, undisturbed = KILLED[name], random.Random(name), 0, 0, place(name)
    with CommandServer(one.setup) as server:
        assert server.run(undisturbed, *one.command).code == 0
        expected = one.found(undisturbed)
        assert expected
        for _ in range(trials):
            folder = place(name)
            now = killed_until_done(server, folder, draw, kills, *one.command)
            met += now
            same += now * (one.found(folder) == expected)
            assert not [path for path in folder.rglob("*") if path.name.endswith(".moso-tmp")]
    return met, same


@pytest.mark.parametrize("name", KILLED)
def test_a_command_that_is_killed_ends_with_the_same_bytes(name, place):
    met, same = killed(name, place, 2, 1)
    assert met > 0
    assert same == met


@pytest.mark.long
@pytest.mark.parametrize("name", KILLED)
def test_a_command_that_is_killed_many_times_ends_with_the_same_bytes(name, place, capsys):
    met, same = killed(name, place, 5, 5)
    with capsys.disabled():
        print(f"\n{name}: {same} of {met} kills byte-identical")
    assert met > 5
    assert same == met
