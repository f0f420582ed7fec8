"""Columns of numbers, one per sample: small columns in memory, large ones memory-mapped.

A large column is mapped from an unlinked temporary file below `$MOSO_CACHE`: the file disappears with the process, and
the operating system can evict its pages, so the private memory of a process does not grow with the number of samples.
Arithmetic over whole columns works block by block.
"""

import os
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Columns of up to four million numbers of 8 bytes stay in memory.
LIMIT_BYTES = 32 * 2**20
BLOCK = 2**20
# Windows cannot unlink an open file: there, columns of every size stay in memory.
_PAGED = os.name != "nt"

Number = TypeVar("Number", bound=np.generic)
# An array whose numbers may be of any type.
Array = NDArray[Any]
# What NumPy raises for damaged npy and npz files: it parses headers as Python, and archives as streams.
ARRAY_ERRORS = (
    *(OSError, ValueError, EOFError, OverflowError, MemoryError, TypeError, KeyError, AttributeError, RecursionError),
    *(SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zlib.error, NotImplementedError),
)


def cache_folder() -> Path:
    """Return the cache folder: `$MOSO_CACHE`, or `moso` in the user's cache folder."""
    own = os.environ.get("MOSO_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "moso"


def blocks(count: int) -> Iterator[slice]:
    """Yield consecutive slices of at most `BLOCK` samples that cover `count` samples.

    Example:
        >>> [one.stop for one in blocks(3)], len(list(blocks(2**20 + 1)))
        ([3], 2)
    """
    for start in range(0, count, BLOCK):
        yield slice(start, min(start + BLOCK, count))


def _nameless() -> IO[bytes]:
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryFile(dir=folder)


def empty_column(shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
    """Return an uninitialised array of this shape, memory-mapped if it is larger than `LIMIT_BYTES`.

    Example:
        >>> empty_column(3, np.int64).shape
        (3,)
    """
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if size <= LIMIT_BYTES or not _PAGED:
        return np.empty(shape, dtype)
    with _nameless() as file:
        file.truncate(size)
        return np.memmap(file, dtype, mode="r+", shape=shape).view(np.ndarray)


class AppendBuffer:
    """Columns that grow by appending, ``[height, n]``, for an `n` that is known only after the last part.

    Example:
        >>> growing = AppendBuffer(1)
        >>> growing.add(np.array([[1.0, 2.0]])), growing.add(np.array([[3.0]]))
        (None, None)
        >>> growing.done()
        array([[1., 2., 3.]])
    """

    def __init__(self, height: int) -> None:
        self._waiting: list[NDArray[np.float64]] = [np.empty((height, 0))]
        self._bytes, self._count = 0, 0
        self._files: list[IO[bytes]] = []

    def add(self, part: NDArray[np.float64]) -> None:
        """Append the next numbers of every column, ``[height, k]``."""
        self._waiting.append(part)
        self._bytes += part.nbytes
        # Thousands of small arrays fragment the heap: memory of large arrays freed between them could not be reused.
        if self._bytes > LIMIT_BYTES // 4:
            self._write()

    def _write(self) -> None:
        part = np.concatenate(self._waiting, axis=1)
        self._waiting, self._bytes, self._count = [part[:, :0]], 0, self._count + part.shape[1]
        self._files = self._files or [_nameless() for _ in part]
        for row, file in zip(part, self._files, strict=True):
            file.write(row.tobytes())

    def done(self) -> NDArray[np.float64]:
        """Return all numbers, ``[height, n]``; nothing may be appended afterwards."""
        if not self._count:
            return np.concatenate(self._waiting, axis=1)
        self._write()
        found: NDArray[np.float64] = empty_column((len(self._files), self._count), np.float64)
        for row, file in zip(found, self._files, strict=True):
            file.seek(0)
            for block in blocks(self._count):
                row[block] = np.frombuffer(file.read(8 * (block.stop - block.start)))
            file.close()
        return found


def column(values: NDArray[Number]) -> NDArray[Number]:
    """Return the same numbers, memory-mapped if they take more than `LIMIT_BYTES`.

    Example:
        >>> column(np.arange(3))
        array([0, 1, 2])
    """
    if values.nbytes <= LIMIT_BYTES or not _PAGED:
        return values
    found = empty_column(values.shape, values.dtype)
    found[...] = values
    return found


def arange(count: int) -> NDArray[np.int64]:
    """Return the positions of `count` samples, ascending.

    Example:
        >>> arange(3)
        array([0, 1, 2])
    """
    found = empty_column(count, np.int64)
    for block in blocks(count):
        found[block] = np.arange(block.start, block.stop)
    return found


def take(values: NDArray[Number], positions: NDArray[np.int64]) -> NDArray[Number]:
    """Return the rows of `values` at these positions.

    Example:
        >>> take(np.array([5, 6, 7]), np.array([2, 0]))
        array([7, 5])
    """
    found = empty_column((len(positions), *values.shape[1:]), values.dtype)
    for block in blocks(len(positions)):
        found[block] = values[positions[block]]
    return found


def flatnonzero(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the positions at which a mask is true, ascending.

    Example:
        >>> flatnonzero(np.array([True, False, True]))
        array([0, 2])
    """
    found, filled = empty_column(int(np.count_nonzero(mask)), np.int64), 0
    for block in blocks(len(mask)):
        own = np.flatnonzero(mask[block])
        found[filled : filled + len(own)] = own + block.start
        filled += len(own)
    return found


def group_by_label(order: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort the positions of an order by class, stably: within a class the order stays.

    Args:
        order: Positions of samples, shape ``[n]``.
        labels: One class per sample of the data set, from 0.

    Example:
        >>> group_by_label(np.array([3, 0, 2, 1]), np.array([1, 0, 0, 1]))
        array([2, 1, 3, 0])
    """
    sizes = np.bincount(labels)
    ends = np.cumsum(sizes) - sizes
    found = empty_column(len(order), np.int64)
    for block in blocks(len(order)):
        own = order[block]
        classes = labels[own]
        by_class = np.argsort(classes, kind="stable")
        own, classes = own[by_class], classes[by_class]
        counts = np.bincount(classes, minlength=len(sizes))
        first = np.cumsum(counts) - counts
        found[ends[classes] + np.arange(len(own)) - first[classes]] = own
        ends += counts
    return found
