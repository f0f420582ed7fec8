"""Dense, structured and ragged targets: every example finds the targets that it made wrong."""

import re
import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[2] / "examples").glob("targets_*.py"))


def test_there_is_an_example_per_kind_of_target():
    assert [path.stem.removeprefix("targets_") for path in SCRIPTS] == [
        "boxes",
        "graphs",
        "multi_label",
        "segmentation",
        "vectors",
    ]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_wrong_targets_are_found(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")  # ends in an assertion about the AUROC
    kept, before = map(int, re.search(r"(\d+)% of what is kept \((\d+)% before\)", capsys.readouterr().out).groups())
    assert kept < before
