"""Numeric inputs that stay on disk: one memory-mapped npy file."""

import hashlib
import mmap
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from moso.columns import Array, take
from moso.randomness import generator

# Ranges of rows that are at most this many bytes apart are asked for together.
_GAP = 2**16
# Batches that are asked for ahead of the one that is read.
_AHEAD = 4
# Pages that came from disk while reading, from which on the file counts as not in memory; a few are others' pages.
_MANY_WAITS = 16


@dataclass(frozen=True)
class MappedReader:
    """Rows of a memory map, all of them or those in `rows`; only row numbers are held in memory.

    Example:
        >>> reader = MappedReader(np.arange(6, dtype=np.uint8).reshape(3, 2)).take(np.array([2, 0]))
        >>> len(reader), reader.read(np.array([0])).tolist()
        (2, [[4.0, 5.0]])
    """

    inputs: Array
    rows: NDArray[np.int64] | None = None
    streamed = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.inputs.shape[1:])

    def __len__(self) -> int:
        return len(self.inputs if self.rows is None else self.rows)

    def read(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Read the inputs at these positions into memory, float32 `[n, ...]`."""
        found = self.inputs.view(np.ndarray)[self._rows(positions)]
        if found.dtype == np.float16:  # the same numbers as by `astype`, which takes several times as long
            return torch.from_numpy(found).to(torch.float32).numpy()
        return found.astype(np.float32, copy=False)

    def expect(self, positions: NDArray[np.int64]) -> None:
        """Ask the operating system for the pages of these inputs, which are read soon, without waiting for them.

        Rows of a file that does not fit memory come one by one otherwise, each with the pages behind it that nobody
        asked for. Where the file is not mapped, or the system takes no advice, this does nothing.
        """
        mapped = getattr(self.inputs, "_mmap", None)
        if not isinstance(mapped, mmap.mmap) or not hasattr(mmap, "MADV_WILLNEED") or not len(positions):
            return
        if self.inputs.flags.c_contiguous:
            mapped.madvise(mmap.MADV_RANDOM)
            for start, end in ranges_of(self.inputs, self._rows(positions)):
                mapped.madvise(mmap.MADV_WILLNEED, start, end - start)

    def _rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return positions if self.rows is None else self.rows[positions]

    def picture(self, position: int) -> None:
        """Return None: numeric inputs are not pictures."""
        return

    def take(self, positions: NDArray[np.int64]) -> "MappedReader":
        """Return the reader of a subset, still on disk."""
        return replace(self, rows=positions if self.rows is None else take(self.rows, positions))

    def fingerprint(self) -> str:
        """Return a hash of 4,096 rows drawn by address; hashing all rows would take too long."""
        count = len(self)
        digest = hashlib.blake2b(repr((count, self.shape)).encode(), digest_size=16)
        chosen = generator("fingerprint", count).choice(count, min(4096, count), replace=False)
        digest.update(self.read(np.sort(chosen)).tobytes())
        return digest.hexdigest()


def ranges_of(inputs: Array, rows: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the ranges of bytes of a memory map that hold these rows, ascending; each begins with a page."""
    first = inputs.__array_interface__["data"][0] - np.frombuffer(inputs._mmap, np.uint8).ctypes.data  # type: ignore[attr-defined]
    width = inputs.nbytes // len(inputs)
    begin = first + np.sort(rows) * width
    apart = np.flatnonzero(np.diff(begin) > width + _GAP)
    starts, ends = begin[np.append(0, apart + 1)], begin[np.append(apart, -1)] + width
    return list(zip((starts // mmap.PAGESIZE * mmap.PAGESIZE).tolist(), ends.tolist(), strict=True))


def expecting(reader: MappedReader, plan: Sequence[NDArray[np.int64]]) -> Iterator[NDArray[np.int64]]:
    """Yield the batches of a plan to be read; once reading had to wait for the disk, ask for those that come next.

    A file in memory is left alone: advice would cost more than reading it.
    """
    before, asked = _waits(), -1
    for number, positions in enumerate(plan):
        if asked >= 0 or _waits() - before > _MANY_WAITS:
            for following in plan[max(asked, number + 1) : number + 1 + _AHEAD]:
                reader.expect(following)
            asked = number + 1 + _AHEAD
        yield positions


def _waits() -> int:
    """Return how often this process had to wait for a page from disk; always 0 where the system does not count."""
    if sys.platform == "win32":
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt
