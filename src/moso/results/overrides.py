"""Overrides: manual decisions (keep or drop) in a table `id, decision`, as the page saves it, which selections apply.

The run keeps a copy, `overrides/HASH.csv`, and every selection made with the overrides has the hash in its parameters:
such selections are stored next to the others and can be retrained and exported like them.
"""

import csv
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso import errors
from moso.data.samples import Samples
from moso.files import plain_cell, write_csv

COLUMNS = ("id", "decision")
KEEP, DROP = "keep", "drop"


@dataclass(frozen=True)
class Overrides:
    """Positions of samples to keep and to drop, ascending; `digest` is the hash of the decisions."""

    keep: NDArray[np.int64]
    drop: NDArray[np.int64]
    digest: str = ""


NONE = Overrides(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def read_overrides(path: Path, samples: Samples) -> Overrides:
    """Read the decisions of a CSV file with the columns `id` and `decision`.

    Args:
        path: The file.
        samples: The samples that the ids refer to.

    Raises:
        MosoError: ``file-unreadable``, ``column-missing``, ``sample-unknown``, ``data-empty``; ``decision-invalid``
            for a decision other than keep or drop, or a second decision about a sample.

    Example:
        >>> import tempfile
        >>> from moso.data.samples import StoredSamples
        >>> path = Path(tempfile.mkdtemp()) / "overrides.csv"
        >>> _ = path.write_text("id,decision\\n2,drop\\n0,keep\\n")
        >>> found = read_overrides(path, StoredSamples.from_arrays(np.zeros((3, 2)), [0, 1, 0]))
        >>> found.keep.tolist(), found.drop.tolist()
        ([0], [2])
    """
    places = {str(one): position for position, one in enumerate(samples.ids.to_pylist())}
    decided: dict[int, str] = {}
    for written, decision in _rows(path):
        # As moso writes it, or as it is: a file of somebody else need not put apostrophes before formulas.
        name = plain_cell(written) if plain_cell(written) in places else written
        if name not in places:
            raise errors.SampleUnknown(f"{path} decides about sample {name!r}, which the data does not have")
        if decision not in (KEEP, DROP):
            raise errors.DecisionInvalid(
                f"{path} decides {decision!r} about sample {name!r}; a decision is keep or drop"
            )
        if places[name] in decided:
            raise errors.DecisionInvalid(f"{path} decides about sample {name!r} twice; keep one of the two rows")
        decided[places[name]] = decision
    if not decided:
        raise errors.DataEmpty(f"{path} has no decision; leave --overrides out")
    keep, drop = (np.array(sorted(one for one in decided if decided[one] == word)) for word in (KEEP, DROP))
    return Overrides(keep.astype(np.int64), drop.astype(np.int64), overrides_digest(path))


def overrides_digest(path: Path) -> str:
    """Return the hash of the decisions of a file, independent of the order of its lines."""
    return hashlib.blake2b(repr(sorted(_rows(path))).encode(), digest_size=8).hexdigest()


def _rows(path: Path) -> list[tuple[str, str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file)
            if not set(COLUMNS) <= set(table.fieldnames or ()):
                found = ", ".join(table.fieldnames or ()) or "none"
                raise errors.ColumnMissing(f"{path} needs the columns id and decision (it has: {found})")
            return [(row["id"], (row["decision"] or "").strip()) for row in table]
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise errors.FileUnreadable(f"{path} cannot be read as CSV: {problem}") from problem


def overrides_path(root: Path, digest: str) -> Path:
    """Return the path of the run's copy of the decisions with this hash."""
    return root / "overrides" / f"{digest}.csv"


def keep_overrides(root: Path, path: Path, samples: Samples) -> str:
    """Copy the decisions of a file into a run and return their hash."""
    found = read_overrides(path, samples)
    ids: pa.Array = samples.ids
    rows = [(ids[int(one)].as_py(), KEEP) for one in found.keep] + [(ids[int(one)].as_py(), DROP) for one in found.drop]
    target = overrides_path(root, found.digest)
    if not target.exists():
        write_csv(target, COLUMNS, rows)
    return found.digest


def find_overrides(root: Path, digest: str, samples: Samples) -> Overrides:
    """Read the decisions of a run by their hash; an empty hash stands for no decisions."""
    return read_overrides(overrides_path(root, digest), samples) if digest else NONE
