"""Files that a user names or that lie in a data set: walked, and read as text or arrays, never trusted.

One walk for all folders of images: a folder is entered once, whatever links lead to it, and only regular files count (a
pipe would wait for ever). One reader for text and one for npy files, which believe neither names nor headers.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from moso import errors
from moso.columns import ARRAY_ERRORS, Array


class Walk:
    """A walk over the folders of one split; no folder is entered twice."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._entered: dict[str, str] = {}

    def files(self, folder: str, suffixes: Sequence[str]) -> list[str]:
        """Return the paths of all files with these suffixes below `root/folder`, relative to `root`.

        Links to folders are followed. Files whose name begins with a dot are metadata and are left out.

        Raises:
            DataAmbiguous: A link leads to a folder that was entered already, such as one above it.
            FileUnreadable: A name is not valid UTF-8, or belongs to a pipe, a socket or a device.

        Example:
            >>> import tempfile
            >>> root = Path(tempfile.mkdtemp())
            >>> (root / "cat").mkdir(); _ = (root / "cat" / "1.png").write_bytes(b"")
            >>> Walk(root).files("cat", (".png",))
            ['cat/1.png']
        """
        found, waiting = [], [folder]
        while waiting:
            place = waiting.pop()
            self._enter(place)
            with os.scandir(self.root / place) as entries:
                for entry in sorted(entries, key=lambda one: one.name):
                    name = f"{place}/{entry.name}" if place not in ("", ".") else entry.name
                    if entry.is_dir():
                        waiting.append(checked_name(name, self.root))
                    elif not entry.name.startswith(".") and entry.name.lower().endswith(tuple(suffixes)):
                        if not entry.is_file():
                            check_regular(self.root / name)
                        found.append(checked_name(name, self.root))
        return found

    def _enter(self, place: str) -> None:
        whole = os.path.realpath(self.root / place)
        before = self._entered.setdefault(whole, place)
        is_above = place != "." and Path(os.path.realpath(self.root)).is_relative_to(whole)
        if before != place or is_above:
            other = "a folder above it" if is_above else self.root / before
            raise errors.DataAmbiguous(
                f"{self.root / place} is a link to {other}, whose images would count twice, under two classes; remove "
                "the link"
            )


def checked_name(name: str, folder: Path) -> str:
    """Return a name of a file or folder if it is valid UTF-8.

    Raises:
        FileUnreadable: It is not.
    """
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError as problem:
            raise errors.FileUnreadable(
                f"the name {os.fsencode(name)!r} in {folder} is not valid UTF-8, and ids are texts; rename it"
            ) from problem
    return name


def subfolders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted; those that begin with a dot are left out.

    Raises:
        FileUnreadable: A name is not valid UTF-8.
    """
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    return sorted(checked_name(name, folder) for name in names)


def check_regular(path: Path) -> None:
    """Refuse what is no regular file, or a link to none: opening a pipe waits until somebody writes to it.

    Raises:
        FileMissing: There is nothing.
        FileUnreadable: It is a pipe, a socket, a device, or a link that leads nowhere.
    """
    if not os.path.lexists(path):
        raise errors.FileMissing(f"there is no file {path}")
    if not path.is_file():
        raise errors.FileUnreadable(
            f"{path} is not a file (a pipe, a socket, a device, or a link that leads nowhere); remove it"
        )


def is_there(name: str) -> bool:
    """Return whether a text that may be a path leads to a file or folder.

    Example:
        >>> is_there("."), is_there(""), is_there("a" * 5000)
        (True, False, False)
    """
    return bool(name) and may_be_path(name) and Path(name).exists()


def may_be_path(name: str) -> bool:
    """Return whether a system could have a file of this name: it is encoded, not too long, and holds no NUL.

    Example:
        >>> may_be_path("photos"), may_be_path("a" * 5000), may_be_path("a" + chr(0))
        (True, False, False)
    """
    try:
        whole = os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return b"\0" not in whole and len(whole) < 4096 and all(len(part) < 256 for part in whole.split(b"/"))


def read_text(path: Path) -> str:
    """Read a text file in UTF-8, with or without a byte order mark.

    Raises:
        FileUnreadable: The file cannot be read, or is not UTF-8.
    """
    check_regular(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as problem:
        raise errors.FileUnreadable(f"{path} is not UTF-8 text ({problem}); save it as UTF-8") from problem
    except OSError as problem:
        raise errors.FileUnreadable(f"{path} cannot be read: {problem.strerror or problem}") from problem


def read_npy(path: Path, what: str) -> Array:
    """Map the array of an npy file; a header that claims more than the file holds is refused before memory is taken.

    Args:
        path: The file.
        what: What the array is, for the error.

    Raises:
        FileUnreadable: The file is no npy file, holds objects, or is shorter than its header says.
    """
    check_regular(path)
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except ARRAY_ERRORS as problem:
        raise errors.FileUnreadable(f"{path} cannot be read as {what}: {problem}") from problem
    if not isinstance(found, np.ndarray):
        found.close()
        raise errors.FileUnreadable(f"{path} cannot be read as {what}: it is an archive of arrays, not an array")
    return found


def read_parquet(path: Path) -> pa.Table:
    """Read all columns of a Parquet file.

    Raises:
        FileUnreadable: The file is no Parquet file.
        DataAmbiguous: Two columns have one name.
    """
    check_regular(path)
    try:
        with pq.ParquetFile(path) as file:
            check_once(file.schema_arrow.names, str(path))
            return file.read()
    except (pa.ArrowException, OSError) as problem:
        raise errors.FileUnreadable(f"{path} cannot be read as Parquet: {' '.join(str(problem).split())}") from problem


def check_once(names: Sequence[str], where: str) -> None:
    """Refuse a table with two columns of one name.

    Raises:
        DataAmbiguous: There are two.
    """
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise errors.DataAmbiguous(f"{where} has {names.count(twice)} columns called {twice!r}; rename all but one")
