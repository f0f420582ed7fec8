"""Columns of the page: one number, bit or text a sample, as the little-endian bytes that a browser's typed arrays read.

A column is read only when somebody asks for it, so that a page over a million samples costs what is looked at.
"""

import base64
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["float64", "float32", "uint32", "uint16", "uint8", "int8", "bits", "texts"]
# What compression must save before a browser is asked to undo it.
_WORTH = 0.9


@dataclass(frozen=True)
class Column:
    """`length` values of a kind in each of `rows` rows; `read` gives them, `[length]` or `[rows, length]`.

    Bytes that stand for numbers between two others have those as `scale`, and `exact: [rows, length]` are the numbers
    themselves, for who can ask for one sample. Where samples have neighbours in the column, `nearest` finds them.

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
        """What the page has to know to read the bytes."""
        return {"kind": self.kind, "length": self.length, "rows": self.rows, "scale": self.scale}

    @property
    def size(self) -> int:
        """How many bytes there will be, texts excepted: those have to be read to know."""
        width = {"bits": 0.125, "texts": 0.0}.get(self.kind)
        return int(self.rows * self.length * (np.dtype(self.kind).itemsize if width is None else width))

    def at(self, position: int) -> NDArray[np.float32]:
        """One sample's numbers, `[rows]`.

        >>> Column("float32", 2, lambda: np.array([[1, 2], [3, 4]]), rows=2).at(1)
        array([2., 4.], dtype=float32)
        """
        found = self.read() if self.exact is None else self.exact
        return np.asarray(np.atleast_2d(found)[:, position], dtype=np.float32)

    def content(self) -> bytes:
        """The bytes."""
        values = self.read()
        if self.kind == "texts":
            return packed_texts(values)
        if self.kind == "bits":
            return np.packbits(np.asarray(values, dtype=bool), bitorder="little").tobytes()
        return np.ascontiguousarray(values, dtype=np.dtype(self.kind).newbyteorder("<")).tobytes()


def packed_texts(texts: Iterable[str]) -> bytes:
    """Texts in one piece: `[n + 1]` uint32 offsets behind their number, then all of them in UTF-8.

    >>> packed_texts(["a", "bc"])[4:]
    b'\\x00\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x03\\x00\\x00\\x00abc'
    """
    # A lone surrogate, as in a file name that is no UTF-8, must not stop the page.
    encoded = [text.encode("utf-8", "replace") for text in texts]
    ends = np.cumsum([0, *map(len, encoded)]).astype("<u4")
    return b"".join([np.array([len(encoded)], dtype="<u4").tobytes(), ends.tobytes(), *encoded])


def smallest(count: int) -> Kind:
    """The narrowest kind for whole numbers below `count`.

    >>> smallest(256), smallest(257), smallest(70_000)
    ('uint8', 'uint16', 'uint32')
    """
    return "uint8" if count <= 2**8 else "uint16" if count <= 2**16 else "uint32"


@dataclass(frozen=True)
class Block:
    """Bytes as they stand inside an HTML file: base64, deflated first where that is worth it."""

    text: str
    deflated: bool

    @classmethod
    def of(cls, content: bytes, compress: bool = True) -> "Block":
        """The block of some bytes.

        >>> Block.of(bytes(1000)).deflated, Block.of(b"abc")
        (True, Block(text='YWJj', deflated=False))
        """
        small = zlib.compress(content, 6) if compress else content
        deflated = len(small) < _WORTH * len(content)
        return cls(base64.b64encode(small if deflated else content).decode("ascii"), deflated)


def quantised(values: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    """Values between `low` and `high` in 256 levels, for curves no higher than a hundred pixels.

    >>> quantised(np.array([0.0, 0.5, 1.0, 7.0]), 0.0, 1.0)
    array([  0, 128, 255, 255], dtype=uint8)
    """
    scale = 255 / (high - low) if high > low else 0.0
    return np.asarray(np.clip(np.rint((np.nan_to_num(values) - low) * scale), 0, 255), dtype=np.uint8)
