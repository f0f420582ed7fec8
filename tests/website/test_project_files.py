"""Files around the project agree with it: the public CI, the citation, the changelog, the list of checked pages."""

import re
import tomllib
from pathlib import Path

import pytest

from moso.version import __version__
from website.prose import faults, pages

yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra [docs]")
ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))


def commands() -> list[str]:
    return [step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step]


def test_the_public_ci_runs_what_ours_runs_and_targets_that_exist() -> None:
    assert ".ci/run" in commands()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [word for command in commands() for word in re.findall(r"^make (\S+)", command)]
    assert {"test-oldest", "test-newest", "docs"} <= set(targets)
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)


def test_the_public_ci_tries_every_python_that_is_promised() -> None:
    promised = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", one)]
    assert WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    assert (
        re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[0]
        == __version__
    )


def test_checked_pages_have_no_faults() -> None:
    checked = pages()
    assert len(checked) > 20
    assert {page.name: found for page in checked if (found := faults(page.read_text(encoding="utf-8")))} == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Two numbers a sample.", 1),
        ("Two numbers per sample.", 0),
        ("`two numbers a sample`", 0),
        ("word " * 30, 1),
        ("| " + "word " * 30 + " |", 0),
        ("[" + "a" * 100 + "](" + "b" * 100 + ")", 0),
        ("It is very easy.", 1),
    ],
)
def test_habits_and_long_lines_are_found(text: str, count: int) -> None:
    assert len(faults(text)) == count
