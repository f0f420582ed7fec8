"""Atomic file writes: a reader sees the old file or the new one, never a part.

A write goes to a temporary file in the same folder, which is flushed to the disk (fsync) and renamed. A process killed
at any moment leaves the old file or the new one, and at worst a temporary file that the next run removes.
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
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

TEMPORARY = ".moso-tmp"


@contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to, and rename it atomically to `path` on a clean exit.

    Args:
        path: The file to replace; missing parent folders are made.
        durable: Wait for the disk (fsync). Without it, the write is faster and may be lost in a power cut.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "a" / "note.txt"
        >>> with replacing(target) as temporary:
        ...     _ = temporary.write_text("whole")
        >>> target.read_text()
        'whole'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A PID alone is not unique where several machines write to one folder.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{uuid4().hex[:8]}{TEMPORARY}")
    try:
        yield temporary
        if durable:
            _flush(temporary, os.O_RDWR)  # Windows flushes only files that are open for writing
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable and hasattr(os, "O_DIRECTORY"):  # Windows cannot open folders
        _flush(path.parent, os.O_RDONLY)


def _flush(path: Path, access: int) -> None:
    descriptor = os.open(path, access)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append(path: Path, line: str, durable: bool = False) -> None:
    """Append a line in one write, so that short lines from several processes of one machine do not interleave.

    Args:
        path: The file; made if it is missing.
        line: The text, with its line break.
        durable: Wait for the disk (fsync).
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, line.encode())
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove the temporary files of killed writers under `folder`; call it only while holding the folder's lock."""
    for leftover in folder.rglob(f".*{TEMPORARY}"):
        leftover.unlink(missing_ok=True)


def clear_away(folder: Path) -> None:
    """Remove a folder with all its files; a missing folder is no error.

    If a writer that outlived its run adds a file meanwhile, the folder stays until the next call.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "state"
        >>> write_text(folder / "note.txt", "done")
        >>> clear_away(folder), clear_away(folder), folder.exists()
        (None, None, False)
    """
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return  # missing, or another process removed it first
    except OSError as problem:
        if problem.errno != errno.ENOTEMPTY:
            raise


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Write JSON atomically, keys in the order given."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_csv(path: Path, names: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
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
    """Yield a writer that writes a Parquet file atomically, one part at a time."""
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        yield writer
