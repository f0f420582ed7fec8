"""Where the raw inputs of a data set are: in memory as one array, or encoded and decoded when asked for.

A reader knows positions, pixels and numbers; ids, labels and views are other people's business.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from moso import errors

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
        """Inputs in their evaluation form: uint8 `[n, channels, height, width]`, float32 `[n, ...]` or int64 tokens."""

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


def check_finite(inputs: NDArray[Any], ids: Sequence[Any] | pa.Array) -> None:
    """Refuse NaN and infinite inputs, naming the first."""
    if inputs.dtype == np.uint8:
        return
    bad = ~np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)
    if bad.any():
        raise errors.ValuesNotFinite(
            f"{int(bad.sum())} of {len(inputs)} inputs hold NaN or infinite values, "
            f"the first is sample {ids[int(np.argmax(bad))]}; remove or repair them first"
        )
