"""Readers of raw inputs: one array in memory, or encoded inputs that are decoded when read.

A reader knows only positions and inputs; ids, labels and views are handled elsewhere.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from moso import errors
from moso.columns import Array

# Images that take more than this when decoded stay on disk and are decoded by loader workers.
MEMORY_LIMIT_BYTES = 6 * 2**30


class Reader(Protocol):
    """The raw inputs of one split, by position."""

    @property
    def streamed(self) -> bool:
        """Whether inputs are decoded when read, so that loader workers are worthwhile."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input in its evaluation form, channels first for images."""

    def __len__(self) -> int:
        """Return the number of inputs."""

    def read(self, positions: NDArray[np.int64]) -> Array:
        """Return inputs in evaluation form: uint8 `[n, channels, height, width]`, float32 `[n, ...]` or int64 ids."""

    def picture(self, position: int) -> Image.Image | None:
        """Return one input as a picture in its original size, or None if inputs are not pictures."""

    def take(self, positions: NDArray[np.int64]) -> "Reader":
        """Return the reader of a subset, in the order given."""

    def fingerprint(self) -> str:
        """Return a hash of the inputs' content."""


@dataclass(frozen=True)
class MemoryReader:
    """Inputs held in one array: uint8 `[n, channels, height, width]` are images, float32 is anything else.

    Example:
        >>> reader = MemoryReader(np.zeros((5, 1, 8, 8), dtype=np.uint8))
        >>> reader.shape, reader.picture(0).size
        ((1, 8, 8), (8, 8))
    """

    inputs: Array
    streamed = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.inputs.shape[1:])

    def __len__(self) -> int:
        return len(self.inputs)

    def read(self, positions: NDArray[np.int64]) -> Array:
        """Return the inputs at these positions."""
        return self.inputs[positions]

    def picture(self, position: int) -> Image.Image | None:
        """Return one input as a picture, or None if inputs are not pictures."""
        if self.inputs.dtype != np.uint8 or self.inputs.ndim != 4:
            return None
        pixels = self.inputs[position].transpose(1, 2, 0)
        return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else np.ascontiguousarray(pixels))

    def take(self, positions: NDArray[np.int64]) -> "MemoryReader":
        """Return a reader of a copy of the subset."""
        return MemoryReader(self.inputs[positions])

    def fingerprint(self) -> str:
        """Return a hash of every byte."""
        digest = hashlib.blake2b(repr((self.inputs.dtype.str, self.inputs.shape)).encode(), digest_size=16)
        digest.update(np.ascontiguousarray(self.inputs).data)
        return digest.hexdigest()


def check_finite(inputs: Array, ids: Sequence[object] | pa.Array) -> None:
    """Refuse NaN and infinite inputs.

    Args:
        inputs: Shape `[n, ...]`.
        ids: Ids of the inputs, for the error.

    Raises:
        ValuesNotFinite: With the number of such inputs and the id of the first.
    """
    if inputs.dtype == np.uint8:
        return
    bad = ~np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)
    if bad.any():
        raise errors.ValuesNotFinite(
            f"{int(bad.sum())} of {len(inputs)} inputs hold NaN or infinite values, "
            f"the first is sample {ids[int(np.argmax(bad))]}; remove or repair them first"
        )
