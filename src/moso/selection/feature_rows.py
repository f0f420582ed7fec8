"""`Features`: one row of features per sample, read in chunks.

Features may be larger than memory (an `np.memmap`): the code here copies only the rows that are asked for.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.selection.mapped_pages import MappedPages

Rows = NDArray[np.float32]
CHUNK = 16_384
# Rows whose largest number lies between these have squares that float32 can add up.
_SAFE = 1e-15, 1e15


def unit_rows(rows: Rows) -> Rows:
    """Return rows scaled to norm 1; rows of zeros stay.

    Example:
        >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32))
        array([[0.6, 0.8],
               [0. , 0. ]], dtype=float32)
    """
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
    if ((largest > 0) & ((largest < _SAFE[0]) | (largest > _SAFE[1]))).any():
        # Powers of two change no digit of a row, and bring its squares back into the range of float32.
        rows = np.ldexp(rows, -np.frexp(largest)[1])
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1), dtype=np.float32)


class Features:
    """A reordered view of the rows of an array, shape ``[samples, dimension]``.

    Args:
        array: A numeric matrix; may be a memory map.
        rows: Rows of `array` that the view shows, in order; None means all.
        unit: Whether rows are scaled to norm 1 when they are read.
        pages: Pages of the memory map, shared by views of the same array.

    Raises:
        ShapeMismatch: `array` is not a numeric matrix.

    Example:
        >>> features = Features(np.arange(6).reshape(3, 2)).subset(np.array([2, 0]))
        >>> features.take(np.array([0]))
        array([[4., 5.]], dtype=float32)
        >>> len(features), features.dimension
        (2, 2)
    """

    def __init__(
        self,
        array: object,
        rows: NDArray[np.int64] | None = None,
        unit: bool = False,
        pages: MappedPages | None = None,
    ) -> None:
        self._array = np.asarray(array)
        self._unit = unit
        if self._array.ndim != 2 or self._array.dtype.kind not in "fiu":
            raise errors.ShapeMismatch(
                f"features must be one row of numbers per sample, not {self._array.dtype} of shape {self._array.shape}"
            )
        # None means all rows in their order: these are read as slices, without an index array as long as the data.
        self._rows = rows
        self._pages = pages or MappedPages(self._array)

    def __len__(self) -> int:
        return len(self._array) if self._rows is None else len(self._rows)

    @property
    def dimension(self) -> int:
        """Number of features per sample."""
        return int(self._array.shape[1])

    def subset(self, positions: NDArray[np.int64]) -> "Features":
        """Return a view of the rows at these positions; nothing is read yet."""
        own = positions if self._rows is None else self._rows[positions]
        return Features(self._array, own, self._unit, self._pages)

    def scaled(self) -> "Features":
        """Return a view whose rows are scaled to norm 1; rows of zeros stay."""
        return Features(self._array, self._rows, unit=True, pages=self._pages)

    def take(self, positions: NDArray[np.int64]) -> Rows:
        """Read the rows at these positions as float32, shape ``[positions, dimension]``."""
        return self._read(positions if self._rows is None else self._rows[positions])

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[int, Rows]]:
        """Yield all rows in chunks: the position of the first row, and the rows as float32."""
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            where = part if self._rows is None else self._rows[part]
            yield start, self._read(where)

    def _read(self, where: slice | NDArray[np.int64]) -> Rows:
        self._pages.give_back()
        with np.errstate(over="ignore"):  # too large for float32 becomes infinite, which `check_finite` refuses
            rows = np.ascontiguousarray(self._array[where], np.float32)
        return unit_rows(rows) if self._unit else rows

    def mean(self) -> NDArray[np.float64]:
        """Return the mean row, accumulated in float64; shape ``[dimension]``."""
        total = np.zeros(self.dimension)
        for _, rows in self.chunks():
            total += rows.sum(axis=0, dtype=np.float64)
        return np.asarray(total / len(self))

    def check_finite(self, name: str = "features") -> None:
        """Check that all numbers are finite, because NaN and infinity have no distances.

        Args:
            name: What the rows are, for the message.

        Raises:
            ValuesNotFinite: A number is NaN or infinite.
        """
        for start, rows in self.chunks():
            finite = np.isfinite(rows).all(axis=1)
            if not finite.all():
                raise errors.ValuesNotFinite(
                    f"the {name} of sample {start + int(np.argmin(finite))} are not all finite numbers"
                )
