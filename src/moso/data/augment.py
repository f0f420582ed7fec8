"""Random augmentation of the training view, one batch at a time, each draw addressed by (seed, epoch, sample).

A sample is augmented in the same way in the same epoch, whatever its batch, worker or machine.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from moso.columns import Array
from moso.randomness import uniforms

Augmentation = Literal["none", "crop", "crop-flip", "resized-crop-flip"]
PADDING_SHARE = 8  # an image of 32 pixels is padded by 4, as is usual


def pad_crop(images: Array, keys: NDArray[np.uint64], epoch: int, seed: int, flip: bool) -> Array:
    """Zero-pad by an eighth, crop a random window of the old size, and mirror half of the images.

    Args:
        images: Shape `[batch, channels, height, width]`.
        keys: One 64-bit key per image, shape `[batch]`.
        epoch: Epoch, counted from 0.
        seed: Seed of the draws.
        flip: Whether half of the images are mirrored.

    Returns:
        Images of the same shape and type.

    Example:
        >>> images = np.arange(2 * 1 * 8 * 8, dtype=np.uint8).reshape(2, 1, 8, 8)
        >>> keys = np.arange(2, dtype=np.uint64)
        >>> both = pad_crop(images, keys, epoch=0, seed=0, flip=True)
        >>> bool((both[1:] == pad_crop(images[1:], keys[1:], epoch=0, seed=0, flip=True)).all())
        True
    """
    count, channels, height, width = images.shape
    pad = max(1, height // PADDING_SHARE)
    padded = np.zeros((count, channels, height + 2 * pad, width + 2 * pad), dtype=images.dtype)
    padded[:, :, pad:-pad, pad:-pad] = images  # a third of the time of np.pad
    tops = (uniforms(keys, seed, "crop-top", epoch) * (2 * pad + 1)).astype(np.int64).tolist()
    lefts = (uniforms(keys, seed, "crop-left", epoch) * (2 * pad + 1)).astype(np.int64).tolist()
    mirrored = (uniforms(keys, seed, "flip", epoch) < 0.5).tolist() if flip else [False] * count
    out = np.empty_like(images)
    for i, (top, left, mirror) in enumerate(zip(tops, lefts, mirrored, strict=True)):
        window = padded[i, :, top : top + height, left : left + width]
        out[i] = window[:, :, ::-1] if mirror else window
    return out


def resized_crop(image: Image.Image, shape: tuple[int, ...], draws: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return a crop of 8 to 100 % of the area at an aspect ratio of 3/4 to 4/3, scaled to `shape`, perhaps mirrored.

    Args:
        image: Image in its own size.
        shape: `(channels, height, width)` of the result.
        draws: The sample's numbers in [0, 1) for area, aspect, top, left and mirror, shape `[5]`.

    Returns:
        Pixels of shape `shape`, uint8.
    """
    area = image.width * image.height * (0.08 + 0.92 * draws[0])
    aspect = (3 / 4) * (16 / 9) ** draws[1]
    width = min(image.width, max(1, round((area * aspect) ** 0.5)))
    height = min(image.height, max(1, round((area / aspect) ** 0.5)))
    left = int(draws[3] * (image.width - width + 1))
    top = int(draws[2] * (image.height - height + 1))
    cut = image.resize((shape[2], shape[1]), Image.Resampling.BILINEAR, box=(left, top, left + width, top + height))
    pixels = np.asarray(cut.convert("L" if shape[0] == 1 else "RGB"))
    pixels = pixels[None] if shape[0] == 1 else pixels.transpose(2, 0, 1)
    return pixels[:, :, ::-1] if draws[4] < 0.5 else pixels


def resized_crop_draws(keys: NDArray[np.uint64], epoch: int, seed: int) -> NDArray[np.float64]:
    """Return the five draws of `resized_crop` per sample, shape `[n, 5]`."""
    purposes = ("area", "aspect", "crop-top", "crop-left", "flip")
    return np.stack([uniforms(keys, seed, purpose, epoch) for purpose in purposes], axis=1)
