"""Persistent results: one small JSON-lines table per experiment, one line per finished cell, committed as it grows.

A cell's line is found by its key, the hash of everything that decides its value. A table alone is enough to continue
an experiment, without run directories, and a cell of one experiment is copied to every other that contains it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moso import errors
from moso.experiments.registry import EXPERIMENTS
from moso.files import append

Row = dict[str, Any]


def key_of(decided: Mapping[str, object]) -> str:
    """Return the key of a cell: the hash of everything that decides its value.

    Example:
        >>> key_of({"ratio": 0.8, "seed": 0}) == key_of({"seed": 0, "ratio": 0.8})
        True
    """
    return hashlib.blake2b(json.dumps(decided, sort_keys=True).encode(), digest_size=8).hexdigest()


@dataclass
class Results:
    """The table of one experiment in a folder of tables.

    Example:
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
        """Read the table from disk; empty if there is no file.

        Raises:
            FileUnreadable: A line is not a result.
        """
        path = folder / f"{name}.jsonl"
        return cls(path, read_rows(path))

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a finished cell durably, as a whole line; a cell that is in the table already stays unchanged."""
        if row["key"] in self.rows:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(dict(row), separators=(",", ":")) + "\n"
        if self.path.exists() and not self.path.read_bytes().endswith(b"\n") and self.path.stat().st_size:
            line = "\n" + line  # an interrupted write or an editor left the last line without a newline
        append(self.path, line, durable=True)
        self.rows[row["key"]] = dict(row)

    def take_over(self, keys: Iterable[str]) -> int:
        """Copy the lines of these keys from the other tables of the folder; return their number."""
        found = self.elsewhere(keys)
        for row in found.values():
            self.add(row)
        return len(found)

    def elsewhere(self, keys: Iterable[str]) -> dict[str, Row]:
        """Return the lines of these keys that are not in this table but in another experiment's, by key.

        Only tables of declared experiments are read: other programs may keep JSON lines of their own in the folder.
        """
        missing = {key for key in keys if key not in self.rows}
        found: dict[str, Row] = {}
        for path in (self.path.with_name(f"{name}.jsonl") for name in sorted(EXPERIMENTS)) if missing else ():
            if path != self.path:
                found |= {key: row for key, row in read_rows(path).items() if key in missing and key not in found}
        return found


def read_rows(path: Path) -> dict[str, Row]:
    """Read the lines of a table by key; empty if there is no file.

    Raises:
        FileUnreadable: A line is not a result; the message has its number.
    """
    found: dict[str, Row] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else (), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            found.setdefault(row["key"], row)
        except (ValueError, KeyError, TypeError) as problem:
            raise errors.FileUnreadable(
                f"{path}, line {number}, is not a result (cut short?); delete the line, and that cell is run again"
            ) from problem
    return found
