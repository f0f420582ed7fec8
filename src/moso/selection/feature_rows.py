"""Features of the samples, a row each, read a few rows at a time.

They may be larger than memory (an `np.memmap`): nothing here holds a second copy of more than the rows asked for.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso import errors

Rows = NDArray[np.float32]
CHUNK = 16_384


class Features:
    """A view on the rows of an array, in an order of its own.

    >>> features = Features(np.arange(6).reshape(3, 2)).subset(np.array([2, 0]))
    >>> features.take(np.array([0]))
    array([[4., 5.]], dtype=float32)
    >>> len(features), features.dimension
    (2, 2)
    """

    def __init__(self, array: Any, rows: NDArray[np.int64] | None = None) -> None:
        self._array = np.asarray(array)
        if self._array.ndim != 2 or self._array.dtype.kind not in "fiu":
            raise errors.ShapeMismatch(
                f"features must be one row of numbers a sample, not {self._array.dtype} of shape {self._array.shape}"
            )
        # None means all rows as they lie: read as slices, which a memory map does without a copy of the index.
        self._rows = rows

    def __len__(self) -> int:
        return len(self._array) if self._rows is None else len(self._rows)

    @property
    def dimension(self) -> int:
        """How many numbers a sample has."""
        return int(self._array.shape[1])

    def subset(self, positions: NDArray[np.int64]) -> "Features":
        """The rows at these positions, still unread."""
        return Features(self._array, positions if self._rows is None else self._rows[positions])

    def take(self, positions: NDArray[np.int64]) -> Rows:
        """The rows at these positions, `[positions, dimension]`."""
        return np.ascontiguousarray(self._array[positions if self._rows is None else self._rows[positions]], np.float32)

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[int, Rows]]:
        """All rows in turn: where each chunk starts, and its rows."""
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            where = part if self._rows is None else self._rows[part]
            yield start, np.ascontiguousarray(self._array[where], np.float32)

    def mean(self) -> NDArray[np.float64]:
        """The mean row, summed in float64."""
        total = np.zeros(self.dimension)
        for _, rows in self.chunks():
            total += rows.sum(axis=0, dtype=np.float64)
        return np.asarray(total / len(self))

    def check_finite(self) -> None:
        """Refuse features with NaN or infinite numbers, which have no distance to anything."""
        for start, rows in self.chunks():
            finite = np.isfinite(rows).all(axis=1)
            if not finite.all():
                raise errors.ValuesNotFinite(
                    f"the features of sample {start + int(np.argmin(finite))} are not all finite numbers"
                )
