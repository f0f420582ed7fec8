"""Npy files that are written a few rows at a time and read as memory maps; no file is ever unpickled."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from moso.checksums import TRAILER, blank, check, damaged
from moso.columns import ARRAY_ERRORS, Array
from moso.files import replacing

_BLOCK = 1 << 22
# An array in a file, of any shape and type.
MemoryMap = np.memmap[Any, np.dtype[Any]]


def create(path: Path, shape: tuple[int, ...], dtype: DTypeLike, fill: float = 0) -> None:
    """Write an npy file filled with one value, atomically.

    Every byte is written, because writing through a memory map of a sparse file to a full disk kills the process.

    Args:
        path: File to write.
        shape: Shape of the array.
        dtype: Anything that `numpy.dtype` takes.
        fill: Value of every element.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.npy"
        >>> create(path, (2, 3), np.float32, np.nan)
        >>> read(path).shape
        (2, 3)
    """
    kind = np.dtype(dtype)
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
    left = int(np.prod(shape, dtype=np.int64))
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        block = np.full(min(left, _BLOCK), fill, dtype=kind)
        while left > 0:
            block[:left].tofile(file)
            left -= len(block)
        file.write(TRAILER)


@contextmanager
def writing(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> Iterator[Array]:
    """Yield an array of zeros to fill; at the end of the context it becomes the file `path`, atomically.

    Args:
        path: File to write.
        shape: Shape of the array.
        dtype: Anything that `numpy.dtype` takes.

    Yields:
        A writable memory map of a temporary file.
    """
    with replacing(path) as temporary:
        create(temporary, shape, dtype)
        array = np.load(temporary, mmap_mode="r+", allow_pickle=False)
        yield array
        array.flush()
        del array


def read(path: Path, writable: bool = False) -> MemoryMap:
    """Return the array of an npy file of a run as a memory map.

    Args:
        path: File to read.
        writable: Whether writing to the array changes the file, which then has no checksum until it is sealed.

    Raises:
        FileDamaged: The file is not what was written.
    """
    if writable:
        blank(path)
    known = check(path, once=True)
    try:
        found: MemoryMap = np.load(path, mmap_mode="r+" if writable else "r", allow_pickle=False)
    except ARRAY_ERRORS as problem:
        if isinstance(problem, OSError) and problem.errno is not None:
            raise
        raise damaged(path, f"it is not a readable array: {problem}") from problem
    if not known and not writable and _behind(path, found) not in (b"", TRAILER):
        raise damaged(path, "there is something else behind its array, where a checksum was")
    return found


def _behind(path: Path, array: MemoryMap) -> bytes:
    with path.open("rb") as file:
        file.seek(array.offset + array.nbytes)
        return file.read()


def write(path: Path, values: Array) -> None:
    """Write an array into an npy file with a checksum, atomically."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, values, allow_pickle=False)
        file.write(TRAILER)
