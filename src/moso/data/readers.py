"""Where the raw inputs of a data set are: in memory as one array, or encoded and decoded when asked for.

A reader knows positions, pixels and numbers; ids, labels and views are other people's business.
"""

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from moso.errors import MosoError
from moso.randomness import generator

# Decoded images beyond this stay on the disk and are decoded by loader workers.
MEMORY_LIMIT_BYTES = 6 * 2**30


class Reader(Protocol):
    """The raw inputs of one split, by position."""

    @property
    def streamed(self) -> bool:
        """Whether inputs are decoded when read, so that loader workers pay."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input in its evaluation form, channels first for images."""

    def __len__(self) -> int:
        """How many inputs there are."""

    def read(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        """Inputs in their evaluation form: uint8 `[n, channels, height, width]` or float32 `[n, ...]`."""

    def picture(self, position: int) -> Image.Image | None:
        """One input as a picture in its original size, or None where inputs are no pictures."""

    def take(self, positions: NDArray[np.int64]) -> "Reader":
        """The reader of a subset, in the order given."""

    def fingerprint(self) -> str:
        """A hash of the inputs' content."""


@dataclass(frozen=True)
class MemoryReader:
    """Inputs held in one array: uint8 `[n, channels, height, width]` are images, float32 is anything else.

    >>> reader = MemoryReader(np.zeros((5, 1, 8, 8), dtype=np.uint8))
    >>> reader.shape, reader.picture(0).size
    ((1, 8, 8), (8, 8))
    """

    inputs: NDArray[Any]
    streamed = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.inputs.shape[1:])

    def __len__(self) -> int:
        return len(self.inputs)

    def read(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        """The inputs at these positions."""
        return self.inputs[positions]

    def picture(self, position: int) -> Image.Image | None:
        """One input as a picture, if it is one."""
        if self.inputs.dtype != np.uint8 or self.inputs.ndim != 4:
            return None
        pixels = self.inputs[position].transpose(1, 2, 0)
        return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else np.ascontiguousarray(pixels))

    def take(self, positions: NDArray[np.int64]) -> "MemoryReader":
        """The subset, copied."""
        return MemoryReader(self.inputs[positions])

    def fingerprint(self) -> str:
        """A hash of every byte."""
        digest = hashlib.blake2b(repr((self.inputs.dtype.str, self.inputs.shape)).encode(), digest_size=16)
        digest.update(np.ascontiguousarray(self.inputs).data)
        return digest.hexdigest()


class BrokenImageError(MosoError):
    """An image that cannot be decoded, with its name."""


def decode(encoded: Any, name: str) -> Image.Image:
    """An encoded image (path or bytes) as RGB; greyscale, palette, CMYK and transparent ones are converted."""
    try:
        with Image.open(io.BytesIO(encoded) if isinstance(encoded, bytes) else encoded) as image:
            if image.mode in ("P", "LA", "PA") or "transparency" in image.info:
                return image.convert("RGBA").convert("RGB")
            return image.convert("RGB")
    except (
        UnidentifiedImageError,
        OSError,
        ValueError,
        SyntaxError,
        Image.DecompressionBombError,
    ) as problem:
        raise BrokenImageError(f"image {name} cannot be decoded: {problem}") from problem


def fit(image: Image.Image, resize: int | None) -> Image.Image:
    """The evaluation form: the shorter side to `resize`, then the centre square; unchanged without a resize."""
    if resize is None or image.size == (resize, resize):
        return image
    width, height = image.size
    scale = resize / min(width, height)
    image = image.resize(
        (max(resize, round(width * scale)), max(resize, round(height * scale))), Image.Resampling.BILINEAR
    )
    left, top = (image.width - resize) // 2, (image.height - resize) // 2
    return image.crop((left, top, left + resize, top + resize))


@dataclass(frozen=True)
class EncodedReader:
    """Images kept encoded, as paths or as a column of bytes, and decoded when they are read.

    `encoded` gives the path or the bytes of a position; `names` says what to call it in an error.
    """

    encoded: Callable[[int], Path | bytes]
    names: Callable[[int], str]
    count: int
    image_shape: tuple[int, int, int]
    resize: int | None = None
    streamed = True

    @property
    def shape(self) -> tuple[int, ...]:
        """`(3, height, width)` after the resize."""
        return self.image_shape

    def __len__(self) -> int:
        return self.count

    def picture(self, position: int) -> Image.Image:
        """The decoded image, in its own size."""
        return decode(self.encoded(position), self.names(position))

    def read(self, positions: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Decoded and resized images, uint8 `[n, 3, height, width]`."""
        out = np.empty((len(positions), *self.image_shape), dtype=np.uint8)
        for row, position in enumerate(positions.tolist()):
            pixels = np.asarray(fit(self.picture(position), self.resize)).transpose(2, 0, 1)
            if pixels.shape != self.image_shape:
                raise MosoError(
                    f"image {self.names(position)} has {pixels.shape[2]} x {pixels.shape[1]} pixels where the others "
                    f"have {self.image_shape[2]} x {self.image_shape[1]}; give --resize PIXELS to make them equal"
                )
            out[row] = pixels
        return out

    def take(self, positions: NDArray[np.int64]) -> "EncodedReader":
        """The subset, still encoded."""
        return EncodedReader(
            _Renumbered(self.encoded, positions),
            _Renumbered(self.names, positions),
            len(positions),
            self.image_shape,
            self.resize,
        )

    def fingerprint(self) -> str:
        """A hash of all names and of the content of 256 images drawn by address.

        Reading a terabyte to see whether it is still the same would cost more than the run.
        """
        digest = hashlib.blake2b(repr((self.count, self.image_shape, self.resize)).encode(), digest_size=16)
        for position in range(self.count):
            digest.update(self.names(position).encode() + b"\0")
        chosen = generator("fingerprint", self.count).choice(self.count, min(256, self.count), replace=False)
        for position in np.sort(chosen).tolist():
            content = self.encoded(position)
            digest.update(content if isinstance(content, bytes) else content.read_bytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class _Renumbered:
    """`positions[i]` in place of `i`; a class, so that readers can travel to worker processes."""

    inner: Callable[[int], Any]
    positions: NDArray[np.int64]

    def __call__(self, position: int) -> Any:
        return self.inner(int(self.positions[position]))


@dataclass(frozen=True)
class Paths:
    """Paths of image files below a root, by position."""

    root: Path
    relative: pa.Array

    def __call__(self, position: int) -> Path:
        """The whole path at a position."""
        return self.root / str(self.relative[position])


@dataclass(frozen=True)
class Column:
    """A column of encoded bytes, by position."""

    values: pa.ChunkedArray

    def __call__(self, position: int) -> bytes:
        """The bytes at a position."""
        value: bytes = self.values[position].as_py()
        return value


@dataclass(frozen=True)
class Names:
    """What positions are called in errors."""

    ids: pa.Array
    prefix: str = ""

    def __call__(self, position: int) -> str:
        """The name of a position."""
        return f"{self.prefix}{self.ids[position]}"


def into_memory(reader: EncodedReader, limit: int = MEMORY_LIMIT_BYTES) -> Reader:
    """The reader itself, or everything decoded once if that fits into `limit` bytes."""
    if len(reader) * int(np.prod(reader.shape)) > limit:
        return reader
    return MemoryReader(reader.read(np.arange(len(reader))))


def check_finite(inputs: NDArray[Any], ids: Sequence[Any] | pa.Array) -> None:
    """Refuse NaN and infinite inputs, naming the first."""
    if inputs.dtype == np.uint8:
        return
    bad = ~np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)
    if bad.any():
        raise MosoError(
            f"{int(bad.sum())} of {len(inputs)} inputs hold NaN or infinite values, "
            f"the first is sample {ids[int(np.argmax(bad))]}; remove or repair them first"
        )
