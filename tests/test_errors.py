"""Every error has a stable code, the page lists all of them, and nothing raises without one."""

import ast
import copy
import re
from pathlib import Path

import pytest

import moso
import moso.cli.main  # with it, every module that declares errors
from moso.errors import FileMissing, MosoError, SampleError

SOURCE = Path(moso.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "errors.md"
# Rooms whose errors have no codes yet.
NOT_YET = ("gradients",)


def kinds() -> dict[str, type[MosoError]]:
    found, waiting = {}, [MosoError]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith("moso.") and kind is not SampleError:
                found[kind.__name__] = kind
    return found


def calls() -> list[tuple[str, str]]:
    """Where a class of errors is called in the sources, and its name."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="errors"), attr=name)):
                    found.append((f"{place.as_posix()}:{node.lineno}", name))
    return found


def test_nothing_raises_an_error_without_a_code():
    bare = [place for place, name in calls() if name in ("MosoError", "SampleError")]
    bare = [place for place in bare if not place.startswith("errors.py")]
    assert [place for place in bare if place.split("/")[0] not in NOT_YET] == []
    assert {place.split("/")[0] for place in bare} == set(NOT_YET), "every room named in NOT_YET has codes by now"


def test_every_code_is_used():
    used = {name for _, name in calls()}
    assert sorted(set(kinds()) - used) == []


def test_the_page_lists_every_code_with_its_meaning():
    rows = re.findall(r"^\| `([a-z-]+)` \| `(\w+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    expected = {(kind.code, name, str(kind.__doc__)) for name, kind in kinds().items()}
    assert set(rows) == expected
    assert len(rows) == len(expected)


def test_codes_are_kebab_case_and_distinct():
    codes = [kind.code for kind in kinds().values()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)
    assert FileMissing.code == "file-missing"


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_an_error_of_a_worker_arrives_as_what_it_was(kind):
    # A copy is made of what is sent to another process.
    arrived = copy.copy(kinds()[kind]("a sentence"))
    assert (type(arrived), str(arrived), arrived.code) == (kinds()[kind], "a sentence", kinds()[kind].code)
