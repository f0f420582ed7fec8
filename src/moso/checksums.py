"""Checksums inside the files of a run: a flipped bit is found when the file is read.

A file carries, once, `moso-blake2b:` and 32 hexadecimal digits: the hash of all its bytes, with the digits as zeros.
The text stands where the format leaves room for it, so that other programs read the file as before:

    JSON           the last entry, `checksum`             npz    the comment of the archive
    safetensors    the note in the header                 npy    64 bytes behind the array
    Parquet        the metadata in the footer             TOML   a comment, the first line

A writer puts `FIELD` there, and `files.replacing` fills the digits in before the file gets its name. So a file and its
checksum cannot part: there is no second file to lose, to keep in step, or to send to a store first. Files of earlier
versions carry none and are read as before.
"""

import hashlib
import os
import struct
from pathlib import Path
from typing import BinaryIO, Literal

from moso import errors

_MARK = b"moso-blake2b:"
_DIGITS = 32
_BLANK = b"0" * _DIGITS
FIELD = (_MARK + _BLANK).decode()
"""What a writer puts into a file for its checksum."""
TRAILER = f"\n{FIELD}\n".encode().rjust(64)
"""The same, for the end of a binary file."""
_CHUNK = 1 << 20
_WHOLE_FILE = (".json", ".toml")

State = Literal["whole", "damaged", "without"]
# Files that are memory-mapped again and again, by path, with the version that was found whole.
_seen: dict[str, tuple[int, int, int]] = {}


def seal(path: Path, like: str = "") -> bool:
    """Fill in the checksum of a file that has room for one; return whether it has.

    Args:
        path: The file.
        like: Suffix that tells the format, if the file's own name does not.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "note.json"
        >>> _ = path.write_text('{"loss": 0.25, "checksum": "' + FIELD + '"}')
        >>> seal(path), state(path)
        (True, 'whole')
        >>> _ = path.write_bytes(path.read_bytes().replace(b"0.25", b"0.75"))
        >>> state(path)
        'damaged'
    """
    with path.open("r+b") as file:
        place = _place(file, like or path.suffix)
        if place is None:
            return False
        digest = _digest(file, place)
        file.seek(place)
        file.write(digest)
    return True


def blank(path: Path) -> None:
    """Take the checksum of a file out, because its content is about to change in place."""
    with path.open("r+b") as file:
        place = _place(file, path.suffix)
        if place is not None:
            file.seek(place)
            file.write(_BLANK)


def state(path: Path) -> State:
    """Return whether a file is as it was written; a file without a checksum cannot be told."""
    found = _compare(path)
    return "without" if found is None else "whole" if found[0] == found[1] else "damaged"


def check(path: Path, once: bool = False) -> bool:
    """Refuse a file whose bytes are not those that were written; return whether it has a checksum.

    Args:
        path: The file.
        once: Do not read a file again that this process found whole and that did not change since.

    Raises:
        FileDamaged: The checksum differs.
    """
    status = path.stat()
    version = status.st_size, status.st_mtime_ns, status.st_ino
    if once and _seen.get(str(path)) == version:
        return True
    found = _compare(path)
    if found is None:
        return False
    if found[0] != found[1]:
        raise damaged(path, f"its bytes have the checksum {found[1]}, and {found[0]} was written")
    if once:
        _seen[str(path)] = version
    return True


def damaged(path: Path, reason: object) -> errors.FileDamaged:
    """Return the error for a file of a run that is not what was written."""
    said = " ".join(str(reason).split())
    return errors.FileDamaged(
        f"{path} is damaged: {said}; the command that wrote it does this piece again, `moso verify RUN` says what else"
    )


def _compare(path: Path) -> tuple[str, str] | None:
    """Return the checksum that was written and that of the bytes, or None if none was written."""
    with path.open("rb") as file:
        place = _place(file, path.suffix)
        if place is None:
            return None
        file.seek(place)
        written = file.read(_DIGITS)
        if written == _BLANK:
            return None  # being written in place
        return written.decode("ascii", "replace"), _digest(file, place).decode()


def _digest(file: BinaryIO, place: int) -> bytes:
    """Return the digits: the hash of the file with zeros in their place."""
    hashed = hashlib.blake2b(digest_size=_DIGITS // 2)
    file.seek(0)
    left = place
    while left:
        chunk = file.read(min(left, _CHUNK))
        hashed.update(chunk)
        left -= len(chunk)
    hashed.update(_BLANK)
    file.seek(place + _DIGITS)
    while chunk := file.read(_CHUNK):
        hashed.update(chunk)
    return hashed.hexdigest().encode()


def _place(file: BinaryIO, suffix: str) -> int | None:
    """Return where the digits stand, or None if the file has no room for a checksum."""
    size = file.seek(0, os.SEEK_END)
    start, end = _window(file, suffix, size)
    file.seek(start)
    text = file.read(end - start)
    found = text.find(_MARK) if suffix == ".toml" else text.rfind(_MARK)
    place = start + found + len(_MARK)
    return None if found < 0 else place


def _window(file: BinaryIO, suffix: str, size: int) -> tuple[int, int]:
    """Return the part of a file in which its format keeps the checksum."""
    if suffix in _WHOLE_FILE:
        return 0, size
    if suffix in (".npy", ".npz"):
        return max(0, size - len(TRAILER)), size
    if suffix == ".safetensors" and size >= 8:
        file.seek(0)
        return 8, min(size, 8 + int(struct.unpack("<Q", file.read(8))[0]))
    if suffix == ".parquet" and size >= 8:
        file.seek(size - 8)
        return max(0, size - 8 - int(struct.unpack("<I", file.read(4))[0])), size
    return 0, 0
