"""The tree of the source: a file is found by its name, a module by its address, and a room can be taken in."""

import importlib
from collections import Counter
from pathlib import Path

import moso
from moso.errors import PackageMissing

PACKAGE = Path(moso.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
SAME_IN_EVERY_ROOM = {"__init__.py", "registry.py"}


def test_no_two_files_share_a_name():
    names = Counter(path.name for path in FILES)
    assert {name for name, count in names.items() if count > 1} <= SAME_IN_EVERY_ROOM


def test_no_module_is_hidden_by_an_object_of_its_name():
    hidden = []
    for path in FILES:
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1] in ("__init__", "__main__"):
            continue
        try:
            module = importlib.import_module(".".join(("moso", *parts)))
        except PackageMissing:  # an integration whose package is not installed
            continue
        room = importlib.import_module(".".join(("moso", *parts[:-1])))
        if getattr(room, parts[-1]) is not module:
            hidden.append(module.__name__)
    assert hidden == []


def test_no_folder_has_more_than_some_twenty_files():
    files = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in FILES)
    assert {room: count for room, count in files.items() if count > 24} == {}
