"""Results that survive: a line of JSON a finished cell, in one small table an experiment, committed as it grows.

A cell's line is found by its key, the hash of everything that decides its value. No run directory is needed to go on
from a table, and a cell that one experiment has is taken over by every other that asks for the same.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moso import errors
from moso.files import append

Row = dict[str, Any]


def key_of(decided: Mapping[str, Any]) -> str:
    """The key of a cell: the hash of everything that decides its value.

    >>> key_of({"ratio": 0.8, "seed": 0}) == key_of({"seed": 0, "ratio": 0.8})
    True
    """
    return hashlib.blake2b(json.dumps(decided, sort_keys=True).encode(), digest_size=8).hexdigest()


@dataclass
class Results:
    """The table of one experiment in a folder of tables.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> Results.open(folder, "figure-1a").add({"key": "abc", "value": 42.0})
    >>> Results.open(folder, "figure-1a").rows["abc"]["value"]
    42.0
    >>> table = Results.open(folder, "class-wise")
    >>> table.take_over(["abc"]), table.rows["abc"]["value"]  # finished elsewhere, never run again
    (1, 42.0)
    """

    path: Path
    rows: dict[str, Row] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, name: str) -> "Results":
        """The table as it is on disk; empty where there is none."""
        path = folder / f"{name}.jsonl"
        return cls(path, read_rows(path))

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a finished cell, at once and whole; one that is there stays as it is."""
        if row["key"] in self.rows:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(dict(row), separators=(",", ":")) + "\n"
        if self.path.exists() and not self.path.read_bytes().endswith(b"\n") and self.path.stat().st_size:
            line = "\n" + line  # a kill or an editor left the last line open
        append(self.path, line, durable=True)
        self.rows[row["key"]] = dict(row)

    def take_over(self, keys: Iterable[str]) -> int:
        """Copy lines of these keys from the other tables of the folder; how many there were."""
        found = self.elsewhere(keys)
        for row in found.values():
            self.add(row)
        return len(found)

    def elsewhere(self, keys: Iterable[str]) -> dict[str, Row]:
        """The lines of these keys that are not here but in another table of the folder."""
        missing = {key for key in keys if key not in self.rows}
        found: dict[str, Row] = {}
        for path in sorted(self.path.parent.glob("*.jsonl")) if missing else ():
            if path != self.path:
                found |= {key: row for key, row in read_rows(path).items() if key in missing and key not in found}
        return found


def read_rows(path: Path) -> dict[str, Row]:
    """The lines of a table by key; a line that is no result is refused by its number."""
    found: dict[str, Row] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else (), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            found.setdefault(row["key"], row)
        except (ValueError, KeyError, TypeError) as problem:
            raise errors.FileUnreadable(
                f"{path}, line {number}, is no result (cut short?); delete the line and that cell is run again"
            ) from problem
    return found
