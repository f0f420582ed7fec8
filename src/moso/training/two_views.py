"""Two random views of every picture, for self-supervised training.

A view crops a window of the picture (part of its area, at an aspect ratio of 3/4 to 4/3, scaled to one size), mirrors
it, and changes brightness, contrast and saturation, sometimes down to grey: SimCLR's augmentation without hue and blur.
All operations work on the whole batch of normalised tensors, so they need neither an image library nor a GPU. Each draw
is addressed by (seed, epoch, sample).

Source: Chen et al., A Simple Framework for Contrastive Learning of Visual Representations, ICML 2020, appendix A.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from moso import errors
from moso.data.views import View
from moso.randomness import uniforms

Uniforms = dict[str, torch.Tensor]

# Random draws per view, one number in [0, 1) each.
_DRAWS = ("area", "aspect", "top", "left", "mirror", "jittered", "brightness", "contrast", "saturation", "grey")


@dataclass(frozen=True)
class Distortion:
    """How much a view may differ from its picture.

    Attributes:
        least_area: Least share of the picture's area in a window.
        side: Side of a view as a share of the picture's side. Smaller views make an epoch cheaper, and show objects at
            about the size that they have in the whole picture.
        mirror: Whether half of the views are mirrored; off if mirroring changes the meaning, as with digits.
        jitter: Strength of the changes of brightness, contrast and saturation.
        jittered: Share of the views whose colours change.
        grey: Share of the views that lose their colours.
    """

    least_area: float = 0.2
    side: float = 1.0
    mirror: bool = True
    jitter: float = 0.4
    jittered: float = 0.8
    grey: float = 0.2


@dataclass(frozen=True)
class TwoViews:
    """A view whose batches are `(first, second)`: two random views of the same pictures, without labels.

    Example:
        >>> from moso.data.views import as_view
        >>> pictures = as_view((np.zeros((4, 3, 8, 8), dtype=np.uint8), [0, 1, 0, 1]))
        >>> first, second = TwoViews(pictures, np.arange(4, dtype=np.uint64), seed=0).batch(np.array([0, 3]))
        >>> first.shape, second.shape
        (torch.Size([2, 3, 8, 8]), torch.Size([2, 3, 8, 8]))
    """

    view: View
    keys: NDArray[np.uint64]
    seed: int
    distortion: Distortion = Distortion()

    @property
    def streamed(self) -> bool:
        """Whether reading is slow enough for loader workers to be worthwhile."""
        return self.view.streamed

    def __len__(self) -> int:
        return len(self.view)

    def __getitem__(self, position: int) -> tuple[torch.Tensor, torch.Tensor]:
        first, second = self.batch(np.array([position]))
        return first[0], second[0]

    def batch(self, positions: NDArray[np.int64], epoch: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """Return two random views of the pictures at these positions, as they are in this epoch.

        Raises:
            PicturesRequired: The inputs are not floating-point pictures of shape `[batch, channels, height, width]`.
        """
        pictures = inputs_of(self.view.batch(positions, epoch))
        if pictures.ndim != 4 or not pictures.is_floating_point():
            raise errors.PicturesRequired(
                f"a network learns without labels from two views of a picture, but inputs are of shape "
                f"{tuple(pictures.shape[1:])}; give features of your own, or those of a pretrained network"
            )
        first, second = (self._changed(pictures, self._draws(positions, epoch, number)) for number in (1, 2))
        return first, second

    def _draws(self, positions: NDArray[np.int64], epoch: int, number: int) -> Uniforms:
        keys = self.keys[positions]
        return {
            name: torch.from_numpy(uniforms(keys, self.seed, "two-views", number, name, epoch)).float()
            for name in _DRAWS
        }

    def _changed(self, pictures: torch.Tensor, draws: Uniforms) -> torch.Tensor:
        return _recoloured(_cut(pictures, draws, self.distortion), draws, self.distortion)


def inputs_of(batch: object) -> torch.Tensor:
    """Return the inputs of a batch `(inputs, ...)`, or the batch itself if it is a tensor.

    Raises:
        WrongType: The batch does not begin with a tensor.
    """
    inputs = batch[0] if isinstance(batch, tuple | list) else batch
    if not isinstance(inputs, torch.Tensor):
        raise errors.WrongType(
            f"a batch must be a tensor of inputs or begin with one, not with a {type(inputs).__name__}"
        )
    return inputs


def _cut(pictures: torch.Tensor, draws: Uniforms, distortion: Distortion) -> torch.Tensor:
    """Crop a window of each picture, scale it, and mirror some: one affine map per picture."""
    area = distortion.least_area + (1 - distortion.least_area) * draws["area"]
    aspect = (3 / 4) * (16 / 9) ** draws["aspect"]
    width, height = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
    side = torch.where(draws["mirror"] < 0.5, -1.0, 1.0) if distortion.mirror else torch.ones_like(width)
    maps = torch.zeros(len(pictures), 2, 3)
    maps[:, 0, 0], maps[:, 1, 1] = side * width, height
    maps[:, 0, 2] = (2 * draws["left"] - 1) * (1 - width)
    maps[:, 1, 2] = (2 * draws["top"] - 1) * (1 - height)
    size = [max(1, round(distortion.side * length)) for length in pictures.shape[2:]]
    grid = F.affine_grid(maps, [*pictures.shape[:2], *size], align_corners=False)
    return F.grid_sample(pictures, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _recoloured(pictures: torch.Tensor, draws: Uniforms, distortion: Distortion) -> torch.Tensor:
    """Change brightness, contrast and saturation, in standard deviations of the data, because inputs are normalised."""
    on = torch.where(draws["jittered"] < distortion.jittered, 2 * distortion.jitter, 0.0)
    brightness, contrast, saturation = (
        (on * (draws[name] - 0.5)).view(-1, 1, 1, 1) for name in ("brightness", "contrast", "saturation")
    )
    middle = pictures.mean((1, 2, 3), keepdim=True)
    pictures = middle + brightness + (1 + contrast) * (pictures - middle)
    if pictures.shape[1] == 1:
        return pictures
    grey = pictures.mean(1, keepdim=True)
    saturation = torch.where(draws["grey"].view(-1, 1, 1, 1) < distortion.grey, -1.0, saturation)
    return grey + (1 + saturation) * (pictures - grey)
