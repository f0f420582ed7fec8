"""Files of a run, written whole and read whole: a reader sees the old file or the new one, never a part.

A write goes to a temporary file in the same folder, which gets its checksum (`checksums.py`), is flushed to the disk
(fsync) and renamed. A process killed at any moment leaves the old file or the new one, and at worst a temporary file
that the next run removes. What is read here is checked first: damage is named, and never used.
"""

import csv
import errno
import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from moso import errors
from moso.checksums import FIELD, TRAILER, check, damaged, seal
from moso.columns import ARRAY_ERRORS, Array
from moso.processes import process_start, this_machine

TEMPORARY = ".moso-tmp"
_CHECKSUM = "checksum"
_not_made_again: list[Path] = []
# What a spreadsheet computes; texts that begin with apostrophes before it get one more, so that each has its own cell.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
# Earlier versions let safetensors write, which names its temporary files itself.
_OF_SAFETENSORS = re.compile(r"\.tmp[A-Za-z0-9]{6}")


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
    for root in _not_made_again:
        if path.is_relative_to(root) and not root.exists():
            raise errors.NotARun(f"{root} was removed while it was worked on; nothing more is written there")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        yield temporary
        seal(temporary, path.suffix)
        if durable:
            _flush(temporary, os.O_RDWR)  # Windows flushes only files that are open for writing
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable and hasattr(os, "O_DIRECTORY"):  # Windows cannot open folders
        _flush(path.parent, os.O_RDONLY)


def temporary_path(path: Path) -> Path:
    """Return a name beside `path` that no other writer uses; it says which process of which machine uses this one."""
    return path.with_name(f".{path.name}.{_machine()}-{os.getpid()}-{uuid4().hex[:8]}{TEMPORARY}")


def sweep_dead(folder: Path, name: str | None = None) -> None:
    """Remove the temporary files and folders in a folder whose writers ran on this machine and are gone.

    For places that have no lock, where another process may be writing the same file or folder.

    Args:
        folder: The folder; folders below it are not looked at.
        name: Only what was to become this file or folder.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> temporary_path(folder / "train_ids.npy").touch()
        >>> sweep_dead(folder), len(list(folder.iterdir()))  # its writer, this process, still runs
        (None, 1)
    """
    left_over = re.compile(rf"\.(?P<name>.+)\.{_machine()}-(?P<process>[0-9]+)-[0-9a-f]{{8}}{re.escape(TEMPORARY)}")
    for left in folder.iterdir():
        found = left_over.fullmatch(left.name)
        if found and name in (None, found["name"]) and not process_start(int(found["process"])):
            clear_away(left) if left.is_dir() else left.unlink(missing_ok=True)


def _machine() -> str:
    return hashlib.blake2b(this_machine().encode(), digest_size=4).hexdigest()


@contextmanager
def not_made_again(root: Path) -> Iterator[None]:
    """Refuse to write below a folder that somebody removes inside this context; it would be made again in part.

    Example:
        >>> import tempfile
        >>> root = Path(tempfile.mkdtemp())
        >>> with not_made_again(root):
        ...     root.rmdir()
        ...     write_text(root / "scores" / "note.txt", "lost")
        Traceback (most recent call last):
        ...
        moso.errors.NotARun: ... was removed while it was worked on; nothing more is written there
    """
    _not_made_again.append(root)
    try:
        yield
    finally:
        _not_made_again.remove(root)


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
    for leftover in folder.rglob(".*"):
        if leftover.name.endswith(TEMPORARY) or _OF_SAFETENSORS.fullmatch(leftover.name):
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


def write_record(path: Path, value: Mapping[str, object]) -> None:
    """Write JSON with a checksum atomically, keys in the order given; `read_record` reads it.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "history.json"
        >>> write_record(path, {"loss": [0.5]})
        >>> read_record(path)
        {'loss': [0.5]}
    """
    write_json(path, {**value, _CHECKSUM: FIELD})


def read_record(path: Path) -> dict[str, Any]:
    """Read a JSON object of a run, without its checksum.

    Raises:
        FileDamaged: The file is not what was written.
    """
    check(path)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as problem:
        raise damaged(path, f"it is not valid JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise damaged(path, f"it holds a {type(found).__name__} and no JSON object")
    found.pop(_CHECKSUM, None)
    return found


def write_csv(path: Path, names: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a CSV file with a header atomically; no cell is a formula (`safe_cell`)."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(safe_cell, row) for row in [names, *rows])
    write_text(path, text.getvalue())


def safe_cell(value: object) -> object:
    """Return a cell that a spreadsheet shows and does not compute: an apostrophe goes before a text like a formula.

    Example:
        >>> safe_cell("=1+1"), safe_cell("'=1"), safe_cell("cat.png"), safe_cell(-0.5)
        ("'=1+1", "''=1", 'cat.png', -0.5)
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def plain_cell(text: str) -> str:
    """Return the text that `safe_cell` wrote.

    Example:
        >>> plain_cell("'=1+1"), plain_cell("''=1"), plain_cell("'tis.png")
        ('=1+1', "'=1", "'tis.png")
    """
    return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text


def write_arrays(path: Path, **arrays: ArrayLike) -> None:
    """Write arrays by name into an npz file with a checksum, atomically; the same arrays give the same bytes."""
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    text = content.getvalue()
    with replacing(path) as temporary:
        # The archive's last two bytes are the length of its comment, which here is the checksum.
        temporary.write_bytes(text[:-2] + len(TRAILER).to_bytes(2, "little") + TRAILER)


def read_arrays(path: Path) -> dict[str, Array]:
    """Read all arrays of an npz file of a run.

    Raises:
        FileDamaged: The file is not what was written.
    """
    if not check(path) and not path.read_bytes().endswith(b"\0\0"):
        raise damaged(path, "it is cut off in its comment, where a checksum was")
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except ARRAY_ERRORS as problem:
        if isinstance(problem, OSError) and problem.errno is not None:
            raise
        raise damaged(path, f"it does not hold arrays: {problem}") from problem


def write_table(path: Path, table: pa.Table) -> None:
    """Write a Parquet file with a checksum atomically; the same table gives the same bytes."""
    with writing_table(path, table.schema) as writer:
        writer.write_table(table)


@contextmanager
def writing_table(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """Yield a writer that writes a Parquet file with a checksum atomically, one part at a time."""
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        yield writer
        writer.add_key_value_metadata({_CHECKSUM: FIELD})


@contextmanager
def reading_table(path: Path) -> Iterator[pq.ParquetFile]:
    """Yield a Parquet file of a run, checked.

    Raises:
        FileDamaged: The file is not what was written.
    """
    check(path)
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        if isinstance(problem, OSError) and problem.errno is not None:
            raise
        raise damaged(path, f"it is not a readable Parquet file: {problem}") from problem


def read_table(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read a Parquet file of a run, or some of its columns.

    Raises:
        FileDamaged: The file is not what was written.
    """
    with reading_table(path) as file:
        missing = set(columns or ()) - set(file.schema_arrow.names)
        if missing:
            raise damaged(path, f"it has no column {min(missing)!r}")
        return file.read(columns)
