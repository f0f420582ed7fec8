"""Decode all images once, or check all images once if they do not fit into memory.

Either way all broken images are known before training starts.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moso.data.images import BrokenImageError, EncodedReader, naming_broken_image, open_image
from moso.data.readers import MEMORY_LIMIT_BYTES, MemoryReader, Reader

OnBroken = Literal["stop", "skip"]

# Smaller images decode so fast that threads only contend for the GIL: 50,000 PNGs of 32 x 32 take 4.2 s in one thread
# and 6.2 s in two.
_PIXELS_WORTH_A_THREAD = 64 * 64
_BLOCK = 128


@dataclass(frozen=True)
class Decoded:
    """A reader of all positions, and the errors of the broken images by position."""

    reader: Reader
    broken: dict[int, BrokenImageError] = field(default_factory=dict)

    def whole(self) -> NDArray[np.int64]:
        """Return the positions of the images that can be decoded."""
        return np.setdiff1d(np.arange(len(self.reader)), np.fromiter(self.broken, dtype=np.int64))


def decode_all(reader: Reader, limit: int = MEMORY_LIMIT_BYTES, on_broken: OnBroken = "stop") -> Decoded:
    """Decode everything into memory if that takes at most `limit` bytes; otherwise check the images in place.

    The check opens every image and verifies what its format allows without decoding: sizes, headers, checksums. A
    truncated JPEG is found only by decoding it, so the check decodes if `on_broken` is "skip" (the samples must be
    known before training starts); with "stop" such a file stops the run when it is read.

    Args:
        reader: Reader of the raw inputs; only encoded images are decoded.
        limit: Most bytes of decoded images in memory.
        on_broken: What the caller does with broken images, "stop" or "skip".

    Returns:
        The reader to use, and the broken images.
    """
    if not isinstance(reader, EncodedReader):
        return Decoded(reader)
    if len(reader) * int(np.prod(reader.shape)) > limit:
        return Decoded(reader, dict(_broken(reader, lambda position: _look_at(reader, position, on_broken == "skip"))))
    pixels = np.empty((len(reader), *reader.shape), dtype=np.uint8)
    return Decoded(MemoryReader(pixels), dict(_broken(reader, lambda position: _fill(reader, position, pixels))))


def _broken(
    reader: EncodedReader, work: Callable[[int], BrokenImageError | None]
) -> Iterator[tuple[int, BrokenImageError]]:
    def through(block: range) -> list[tuple[int, BrokenImageError]]:
        return [(position, problem) for position in block if (problem := work(position)) is not None]

    blocks = [range(start, min(start + _BLOCK, len(reader))) for start in range(0, len(reader), _BLOCK)]
    small = reader.image_shape[1] * reader.image_shape[2] < _PIXELS_WORTH_A_THREAD
    with ThreadPoolExecutor(1 if small else min(4, os.cpu_count() or 1)) as threads:
        for found in threads.map(through, blocks):
            yield from found


def _fill(reader: EncodedReader, position: int, pixels: NDArray[np.uint8]) -> BrokenImageError | None:
    try:
        pixels[position] = reader.pixels(position)
    except BrokenImageError as problem:
        return problem
    return None


def _look_at(reader: EncodedReader, position: int, thorough: bool) -> BrokenImageError | None:
    try:
        with naming_broken_image(reader.names(position)), open_image(reader.encoded(position)) as image:
            width, height = image.size
            if not thorough:
                image.verify()
            elif image.format == "JPEG":
                image.draft("RGB", (1, 1))  # the whole file is still read, but decoded at an eighth of the size
                image.load()
            else:
                reader.picture(position)
    except BrokenImageError as problem:
        return problem
    if reader.resize is None:
        reader.check_size(position, width, height)
    return None
