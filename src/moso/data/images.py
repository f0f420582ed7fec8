"""Encoded images: opened, decoded to RGB, brought to one size, and read by position.

Every image has a name, so that errors can say which one is broken.
"""

import hashlib
import io
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from moso import errors
from moso.columns import Array
from moso.data.user_files import check_regular
from moso.errors import MosoError
from moso.randomness import generator

# Exceptions of Pillow's parsers for wrong bytes; a missing file is an OSError as well.
_BAD_BYTES = (OSError, ValueError, SyntaxError, EOFError, struct.error, zlib.error, Image.DecompressionBombError)


class BrokenImageError(MosoError):
    """An image cannot be decoded; repair it, remove it, or give --on-broken skip."""


@contextmanager
def naming_broken_image(name: str) -> Iterator[None]:
    """Turn any exception of Pillow inside this context into a `BrokenImageError` that names the image.

    Example:
        >>> with naming_broken_image("cat.png"):
        ...     Image.open(io.BytesIO(b"no image"))
        Traceback (most recent call last):
        ...
        moso.data.images.BrokenImageError: image cat.png cannot be decoded: cannot identify image file ...
    """
    try:
        yield
    except _BAD_BYTES as problem:
        raise BrokenImageError(f"image {name} cannot be decoded: {problem}") from problem


def open_image(encoded: Path | bytes) -> Image.Image:
    """Open an encoded image: the header is read, the pixels are not."""
    if isinstance(encoded, Path) and encoded.exists():
        check_regular(encoded)
    return Image.open(io.BytesIO(encoded) if isinstance(encoded, bytes) else encoded)


def decode(encoded: Path | bytes, name: str) -> Image.Image:
    """Decode an image to RGB; greyscale, 16-bit, palette, CMYK and transparent images are converted.

    Args:
        encoded: Path or bytes of the image.
        name: Name of the image in errors.

    Raises:
        BrokenImageError: The image cannot be decoded, or its pixels have more than 16 bits.

    Example:
        >>> file = io.BytesIO(); Image.new("L", (2, 2), 7).save(file, "PNG")
        >>> decode(file.getvalue(), "grey.png").getpixel((0, 0))
        (7, 7, 7)
    """
    with naming_broken_image(name), open_image(encoded) as image:
        image.load()
        if image.mode == "RGB" and "transparency" not in image.info:
            return image
        if image.mode in ("P", "LA", "PA") or "transparency" in image.info:
            return image.convert("RGBA").convert("RGB")
        if image.mode == "I" or image.mode.startswith("I;16"):
            # Pillow's own conversion clips at 255, which would turn most of a 16-bit image white.
            pixels = np.asarray(image)
            if pixels.min() < 0 or pixels.max() > 65535:
                raise ValueError("its numbers have more than 16 bits; convert it to 8 bits first")
            return Image.fromarray((pixels >> 8).astype(np.uint8)).convert("RGB")
        if image.mode == "F":
            raise ValueError("its pixels are floating-point numbers; convert it to 8 bits first")
        return image.convert("RGB")


def fit(image: Image.Image, resize: int | None) -> Image.Image:
    """Scale the shorter side to `resize` and crop the centre square; without `resize`, return the image unchanged."""
    if resize is None or image.size == (resize, resize):
        return image
    width, height = image.size
    scale = resize / min(width, height)
    image = image.resize(
        (max(resize, round(width * scale)), max(resize, round(height * scale))), Image.Resampling.BILINEAR
    )
    left, top = (image.width - resize) // 2, (image.height - resize) // 2
    return image.crop((left, top, left + resize, top + resize))


def resize_images(images: Array, resize: int) -> NDArray[np.uint8]:
    """Bring decoded images `[n, channels, height, width]` to `resize` x `resize` pixels, as `fit` does.

    Raises:
        PicturesRequired: The inputs are not uint8 images of 1 or 3 channels.

    Example:
        >>> resize_images(np.zeros((2, 1, 8, 8), dtype=np.uint8), 4).shape
        (2, 1, 4, 4)
    """
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3):
        raise errors.PicturesRequired(
            f"--resize needs images, but inputs are {images.dtype} of shape {images.shape[1:]}"
        )
    if images.shape[2:] == (resize, resize):
        return images
    out = np.empty((len(images), images.shape[1], resize, resize), dtype=np.uint8)
    for row, pixels in enumerate(images):
        image = Image.fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
        out[row] = np.asarray(fit(image, resize)).reshape(resize, resize, -1).transpose(2, 0, 1)
    return out


@dataclass(frozen=True)
class EncodedReader:
    """Images kept encoded, as paths or as a column of bytes, and decoded when they are read.

    Attributes:
        encoded: Returns the path or the bytes at a position.
        names: Returns the name at a position, for errors.
        count: Number of images.
        image_shape: `(3, height, width)` after the resize.
        resize: Side in pixels to which images are scaled and cropped.
        reference: Name of the image whose size all others must have.
        streamed: Whether inputs are decoded when read.
    """

    encoded: Callable[[int], Path | bytes]
    names: Callable[[int], str]
    count: int
    image_shape: tuple[int, int, int]
    resize: int | None = None
    reference: str = "the first"
    streamed = True

    @classmethod
    def measured(
        cls,
        encoded: Callable[[int], Path | bytes],
        names: Callable[[int], str],
        count: int,
        resize: int | None = None,
    ) -> "EncodedReader":
        """Return a reader whose shape is the resize, or else the size of the first image that can be opened.

        Raises:
            BrokenImageError: No image can be opened.
        """
        if resize is not None:
            return cls(encoded, names, count, (3, resize, resize), resize)
        problem: BrokenImageError | None = None
        for position in range(count):
            try:
                with naming_broken_image(names(position)), open_image(encoded(position)) as image:
                    return cls(encoded, names, count, (3, image.height, image.width), None, names(position))
            except BrokenImageError as found:
                problem = problem or found
        raise BrokenImageError(f"none of the {count} images can be decoded; the first: {problem}")

    @property
    def shape(self) -> tuple[int, ...]:
        """`(3, height, width)` after the resize."""
        return self.image_shape

    def __len__(self) -> int:
        return self.count

    def picture(self, position: int) -> Image.Image:
        """Return the decoded image in its own size."""
        return decode(self.encoded(position), self.names(position))

    def pixels(self, position: int) -> NDArray[np.uint8]:
        """Return one decoded and resized image, uint8 `[3, height, width]`."""
        image = fit(self.picture(position), self.resize)
        self.check_size(position, image.width, image.height)
        return np.asarray(image).transpose(2, 0, 1)

    def read(self, positions: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return decoded and resized images, uint8 `[n, 3, height, width]`.

        Raises:
            BrokenImageError: An image cannot be decoded.
            ShapeMismatch: An image has another size than the reference.
        """
        out = np.empty((len(positions), *self.image_shape), dtype=np.uint8)
        for row, position in enumerate(positions.tolist()):
            out[row] = self.pixels(position)
        return out

    def check_size(self, position: int, width: int, height: int) -> None:
        """Refuse an image of another size than the reference.

        Raises:
            ShapeMismatch: The sizes differ.
        """
        if (height, width) != self.image_shape[1:]:
            raise errors.ShapeMismatch(
                f"image {self.names(position)} has {width} x {height} pixels but {self.reference} has "
                f"{self.image_shape[2]} x {self.image_shape[1]}; give them one size with --resize PIXELS"
            )

    def take(self, positions: NDArray[np.int64]) -> "EncodedReader":
        """Return the reader of a subset, still encoded."""
        return replace(
            self,
            encoded=_Renumbered(self.encoded, positions),
            names=_Renumbered(self.names, positions),
            count=len(positions),
        )

    def fingerprint(self) -> str:
        """Return a hash of the content of 256 images drawn by address.

        Hashing a terabyte would cost more than the run. Names are left out, because data that was moved to another disk
        is still the same data.
        """
        digest = hashlib.blake2b(repr((self.count, self.image_shape, self.resize)).encode(), digest_size=16)
        chosen = generator("fingerprint", self.count).choice(self.count, min(256, self.count), replace=False)
        for position in np.sort(chosen).tolist():
            content = self.encoded(position)
            digest.update(content if isinstance(content, bytes) else content.read_bytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class _Renumbered:
    """Maps `i` to `positions[i]` first; a class, because readers are pickled for worker processes."""

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
        """Return the whole path at a position."""
        return self.root / str(self.relative[position])


@dataclass(frozen=True)
class Column:
    """A column of encoded bytes, by position, with a column of paths as a fallback for missing bytes.

    Example:
        >>> Column(pa.chunked_array([[b"a", b"b"]]))(1)
        b'b'
    """

    values: pa.ChunkedArray
    paths: pa.ChunkedArray | None = None
    folder: Path | None = None
    """Where relative paths begin."""

    def __call__(self, position: int) -> Path | bytes:
        """Return the bytes at a position, or the path of the file that holds them."""
        value: bytes | None = self.values[position].as_py()
        if value is not None:
            return value
        path = None if self.paths is None else self.paths[position].as_py()
        if path is not None:
            return Path(path) if self.folder is None else self.folder / path
        return b""  # empty bytes raise a BrokenImageError with the image's name


@dataclass(frozen=True)
class Names:
    """Names of positions in errors."""

    ids: pa.Array
    prefix: str = ""

    def __call__(self, position: int) -> str:
        """Return the name of a position."""
        return f"{self.prefix}{self.ids[position]}"
