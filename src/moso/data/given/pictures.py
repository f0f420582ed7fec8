"""PIL pictures in a user's data: all of them as one array, or each as a tensor."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from moso import errors


def stacked_pictures(pictures: Iterable[Image.Image]) -> NDArray[np.uint8]:
    """Return pictures of one size as an array, `[n, channels, height, width]`.

    Raises:
        ShapeMismatch: Two pictures have different sizes.

    Example:
        >>> stacked_pictures([Image.new("L", (4, 3)), Image.new("L", (4, 3))]).shape
        (2, 1, 3, 4)
    """
    rows: list[NDArray[np.uint8]] = []
    for number, picture in enumerate(pictures):
        row = _pixels(picture)
        if rows and row.shape != rows[0].shape:
            raise errors.ShapeMismatch(
                f"picture {number} is {row.shape[2]} x {row.shape[1]} with {row.shape[0]} channels, the first is "
                f"{rows[0].shape[2]} x {rows[0].shape[1]} with {rows[0].shape[0]}; bring them to one size, for "
                "example with a transform that resizes and crops"
            )
        rows.append(row)
    return np.stack(rows)


def _pixels(picture: Image.Image) -> NDArray[np.uint8]:
    grey = picture.mode in ("L", "1", "I;16")
    array = np.asarray(picture.convert("L" if grey else "RGB"))
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def has_pictures(item: Any) -> bool:
    """Return whether an item of any structure holds a PIL picture."""
    if isinstance(item, Mapping):
        return any(map(has_pictures, item.values()))
    if isinstance(item, tuple | list):
        return any(map(has_pictures, item))
    return isinstance(item, Image.Image)


def as_tensors(item: Any) -> Any:
    """Return an item with its pictures as float32 tensors `[channels, height, width]` in [0, 1].

    Example:
        >>> as_tensors((Image.new("L", (2, 2), 255), 3))
        (tensor([[[1., 1.],
                 [1., 1.]]]), 3)
    """
    if isinstance(item, Image.Image):
        return torch.from_numpy(_pixels(item).astype(np.float32) / 255)
    if isinstance(item, Mapping):
        return {name: as_tensors(part) for name, part in item.items()}
    if isinstance(item, tuple | list):
        return type(item)(as_tensors(part) for part in item)
    return item


class PicturesAsTensors:
    """A user's map-style dataset with its PIL pictures as tensors, which default collation needs."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, position: int) -> Any:
        return as_tensors(self.dataset[position])
