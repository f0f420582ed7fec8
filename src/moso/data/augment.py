"""Random changes of the training view, a batch at a time, each draw addressed by (seed, epoch, sample).

The same sample in the same epoch is changed in the same way whatever batch, worker or machine it meets.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from moso.randomness import uniforms

Augmentation = Literal["none", "crop", "crop-flip", "resized-crop-flip"]
PADDING_SHARE = 8  # an image of 32 pixels is padded by 4, as everywhere in this field


def pad_crop(images: NDArray[Any], keys: NDArray[np.uint64], epoch: int, seed: int, flip: bool) -> NDArray[Any]:
    """Zero-pad by an eighth, cut a window of the old size at random, mirror half of the images.

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
    """A window of 8 to 100 % of the area at an aspect of 3/4 to 4/3, scaled to `shape`, perhaps mirrored.

    `draws: [5]` are the sample's own numbers in [0, 1): area, aspect, top, left, mirror.
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
    """The five draws a sample of `resized_crop`, `[n, 5]`."""
    purposes = ("area", "aspect", "crop-top", "crop-left", "flip")
    return np.stack([uniforms(keys, seed, purpose, epoch) for purpose in purposes], axis=1)
