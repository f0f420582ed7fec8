"""Pages of a memory-mapped array that were read, given back before they fill the memory of the process.

A pass over a memory map leaves all of it resident: the system takes pages back only when memory is short, and limits
of containers and schedulers count them until then. The file's pages stay in the system's cache, so reading them again
does not reach the disk.
"""

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Most bytes of a map that stay resident.
MOST = 1 << 30
_PAGE = mmap.PAGESIZE


class MappedPages:
    """The pages of the read-only memory map behind an array; of any other array nothing is given back.

    Args:
        array: The array, a memory map or a view of one.
        most: Bytes that may have been read before pages are given back.

    Example:
        >>> pages = MappedPages(np.zeros((4, 2)))
        >>> pages.is_mapped, pages.read(4)
        (False, None)
    """

    def __init__(self, array: NDArray[Any], most: int = MOST) -> None:
        self._map = _read_only_map(array)
        self._most, self._resident = most, 0
        # A row of a few bytes brings the whole page that it lies on, and one that crosses a border brings two.
        self._each = (array.strides[0] // _PAGE + 1) * _PAGE if array.ndim else 0

    @property
    def is_mapped(self) -> bool:
        """Whether there is a map whose pages can be given back."""
        return self._map is not None

    def read(self, rows: int) -> None:
        """Note that so many rows are about to be read; if too many were read before, give their pages back first."""
        if self._map is None:
            return
        if self._resident > self._most:
            self._map.madvise(mmap.MADV_DONTNEED)
            self._resident = 0
        self._resident += rows * self._each


def _read_only_map(array: Any) -> mmap.mmap | None:
    """Return the map of an array that nobody writes to through it; None if there is none.

    A copy-on-write map is left alone, because its changed pages have no file to come back from.
    """
    found = array
    while found is not None and not isinstance(found, np.memmap):
        found = getattr(found, "base", None)
    if found is None or found.mode != "r" or not hasattr(mmap, "MADV_DONTNEED"):
        return None
    while found is not None and not isinstance(found, mmap.mmap):
        found = getattr(found, "base", None)
    return found
