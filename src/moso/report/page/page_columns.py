"""Columns of the page: one number, bit or text per sample, as little-endian bytes for a browser's typed arrays.

Columns are read on demand, so that a page over a million samples costs only what is looked at.
"""

import base64
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["float64", "float32", "uint32", "uint16", "uint8", "int8", "bits", "texts"]
# Compressed size, relative to the original, below which compression is worth the decompression in the browser.
_WORTH = 0.9


@dataclass(frozen=True)
class Column:
    """A column of the page.

    Attributes:
        kind: Type of the values.
        length: Values per row, usually one per sample.
        read: Returns the values, shape ``[length]`` or ``[rows, length]``.
        rows: Number of rows.
        scale: For quantised values, the numbers that the lowest and the highest level stand for.
        exact: For quantised values, the exact numbers, shape ``[rows, length]``, for requests of single samples.
        nearest: Returns the nearest samples of a position, if the column has distances.

    Example:
        >>> Column("uint16", 3, lambda: np.array([1, 2, 3])).content()
        b'\\x01\\x00\\x02\\x00\\x03\\x00'
        >>> Column("bits", 9, lambda: np.arange(9) % 2 == 0).content()
        b'U\\x01'
    """

    kind: Kind
    length: int
    read: Callable[[], Any]
    rows: int = 1
    scale: tuple[float, float] | None = None
    exact: NDArray[Any] | None = None
    nearest: Callable[[int, int], NDArray[np.int64]] | None = None

    @property
    def described(self) -> dict[str, Any]:
        """The description from which the page decodes the bytes."""
        return {"kind": self.kind, "length": self.length, "rows": self.rows, "scale": self.scale}

    @property
    def size(self) -> int:
        """Number of bytes; 0 for texts, whose size is only known once they are read."""
        width = {"bits": 0.125, "texts": 0.0}.get(self.kind)
        return int(self.rows * self.length * (np.dtype(self.kind).itemsize if width is None else width))

    def at(self, position: int) -> NDArray[np.float32]:
        """Return the numbers of one sample, shape ``[rows]``.

        Example:
            >>> Column("float32", 2, lambda: np.array([[1, 2], [3, 4]]), rows=2).at(1)
            array([2., 4.], dtype=float32)
        """
        found = self.read() if self.exact is None else self.exact
        return np.asarray(np.atleast_2d(found)[:, position], dtype=np.float32)

    def content(self) -> bytes:
        """Read the values and return their bytes."""
        values = self.read()
        if self.kind == "texts":
            return packed_texts(values)
        if self.kind == "bits":
            return np.packbits(np.asarray(values, dtype=bool), bitorder="little").tobytes()
        return np.ascontiguousarray(values, dtype=np.dtype(self.kind).newbyteorder("<")).tobytes()


def once(compute: Callable[[], NDArray[Any]]) -> Callable[[], NDArray[Any]]:
    """Return a function that computes on its first call alone, also if many threads call it at the same time.

    Without the lock, fifty clients of a server that ask for a column at once would compute it fifty times, in fifty
    times the memory.

    Example:
        >>> read = once(lambda: print("computed") or np.arange(2))
        >>> read().tolist(), read().tolist()
        computed
        ([0, 1], [0, 1])
    """
    lock, found = Lock(), list[NDArray[Any]]()

    def read() -> NDArray[Any]:
        with lock:
            if not found:
                found.append(compute())
        return found[0]

    return read


def packed_texts(texts: Iterable[str]) -> bytes:
    """Encode texts as one block: their number, ``[n + 1]`` offsets (all uint32), then the texts in UTF-8.

    Example:
        >>> packed_texts(["a", "bc"])[4:]
        b'\\x00\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x03\\x00\\x00\\x00abc'
    """
    # Replace lone surrogates (as in file names that are not UTF-8), which cannot be encoded.
    encoded = [text.encode("utf-8", "replace") for text in texts]
    ends = np.cumsum([0, *map(len, encoded)]).astype("<u4")
    return b"".join([np.array([len(encoded)], dtype="<u4").tobytes(), ends.tobytes(), *encoded])


def smallest(count: int) -> Kind:
    """Return the narrowest unsigned type for whole numbers below `count`.

    Example:
        >>> smallest(256), smallest(257), smallest(70_000)
        ('uint8', 'uint16', 'uint32')
    """
    return "uint8" if count <= 2**8 else "uint16" if count <= 2**16 else "uint32"


@dataclass(frozen=True)
class Block:
    """Bytes inside an HTML file: base64, deflated first if that saves enough."""

    text: str
    deflated: bool

    @classmethod
    def of(cls, content: bytes, compress: bool = True) -> "Block":
        """Encode bytes as a block.

        Example:
            >>> Block.of(bytes(1000)).deflated, Block.of(b"abc")
            (True, Block(text='YWJj', deflated=False))
        """
        small = zlib.compress(content, 6) if compress else content
        deflated = len(small) < _WORTH * len(content)
        return cls(base64.b64encode(small if deflated else content).decode("ascii"), deflated)


def quantised(values: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    """Quantise values between `low` and `high` to 256 levels, enough for curves of at most a hundred pixels.

    NaN counts as 0.

    Example:
        >>> quantised(np.array([0.0, 0.5, 1.0, 7.0]), 0.0, 1.0)
        array([  0, 128, 255, 255], dtype=uint8)
    """
    scale = 255 / (high - low) if high > low else 0.0
    return np.asarray(np.clip(np.rint((np.nan_to_num(values) - low) * scale), 0, 255), dtype=np.uint8)
