"""Pages of a memory-mapped array that were read, given back before they fill the memory of the process.

A pass over a memory map leaves all of it resident: the system takes pages back only when memory is short, and limits
of containers and schedulers count them until then. The file's pages stay in the system's cache, so reading them again
does not reach the disk.
"""

import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Most bytes of files that stay resident in the process, its libraries included, before pages are given back.
MOST = 3 << 29
_STATM = Path("/proc/self/statm")


class MappedPages:
    """The pages of the read-only memory map behind an array; of any other array nothing is given back.

    The system says how much is resident: a row that is read brings its page, and as much around it as the system sees
    fit, so counting rows would not do. Where the system does not say it (not Linux), nothing is given back.

    Args:
        array: The array, a memory map or a view of one.
        most: Resident bytes of files from which on pages are given back.

    Example:
        >>> pages = MappedPages(np.zeros((4, 2)))
        >>> pages.is_mapped, pages.give_back()
        (False, None)
    """

    def __init__(self, array: NDArray[Any], most: int = MOST) -> None:
        self._map, self._most = _read_only_map(array), most

    @property
    def is_mapped(self) -> bool:
        """Whether there is a map whose pages can be given back."""
        return self._map is not None

    def give_back(self) -> None:
        """Give the pages of the map back if too much of files is resident."""
        if self._map is not None and _resident_bytes() > self._most:
            self._map.madvise(mmap.MADV_DONTNEED)


def _resident_bytes() -> int:
    """Return how many bytes of files are resident in this process."""
    return int(_STATM.read_text().split()[2]) * mmap.PAGESIZE


def _read_only_map(array: Any) -> mmap.mmap | None:
    """Return the map of an array that nobody writes to through it; None if there is none.

    A copy-on-write map is left alone, because its changed pages have no file to come back from.
    """
    found = array
    while found is not None and not isinstance(found, np.memmap):
        found = getattr(found, "base", None)
    if found is None or found.mode != "r" or not hasattr(mmap, "MADV_DONTNEED") or not _STATM.exists():
        return None
    while found is not None and not isinstance(found, mmap.mmap):
        found = getattr(found, "base", None)
    return found
