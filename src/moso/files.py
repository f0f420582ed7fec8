"""Files that are either whole or not there.

A write goes to a temporary name in the same folder, is flushed to the disk and renamed. A process killed
at any moment leaves the old file or the new one, and at worst a temporary name that the next run sweeps.
"""

import csv
import errno
import io
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

TEMPORARY = ".moso-tmp"


@contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[Path]:
    """A temporary path to write to; on a clean exit it becomes `path`, all at once.

    What is not `durable` may be gone after a power cut, and costs no waiting for the disk.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a" / "note.txt"
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> target.read_text()
    'whole'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A process number alone is not unique where several machines write to one folder.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{uuid4().hex[:8]}{TEMPORARY}")
    try:
        yield temporary
        if durable:
            _flush(temporary, os.O_RDWR)  # Windows flushes only what is open for writing
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable and hasattr(os, "O_DIRECTORY"):  # Windows opens no folders
        _flush(path.parent, os.O_RDONLY)


def _flush(path: Path, access: int) -> None:
    descriptor = os.open(path, access)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append(path: Path, line: str, durable: bool = False) -> None:
    """Add a line to a file in one write: short lines from several processes of one machine do not mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, line.encode())
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove what killed writers left under `folder`; call it only while holding the folder's lock."""
    for leftover in folder.rglob(f".*{TEMPORARY}"):
        leftover.unlink(missing_ok=True)


def clear_away(folder: Path) -> None:
    """Remove a folder whose work is done, and in it what killed writers left.

    A writer that outlived its run may add to it at the same moment; then it stays until somebody clears away again.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "state"
    >>> write_text(folder / "note.txt", "done")
    >>> clear_away(folder), clear_away(folder), folder.exists()
    (None, None, False)
    """
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return  # there is none, or another was quicker
    except OSError as problem:
        if problem.errno != errno.ENOTEMPTY:
            raise


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, keys in the order given."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_csv(path: Path, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a CSV file with a header atomically."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([names, *rows])
    write_text(path, text.getvalue())


def write_table(path: Path, table: pa.Table) -> None:
    """Write a Parquet file atomically; the same table gives the same bytes."""
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


@contextmanager
def writing_table(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """Write a Parquet file atomically, a part at a time."""
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        yield writer
