"""Convolutions of all kinds: transposed, depthwise, in one to three dimensions, beside norms and gates."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.scoring.inputs import pictures as smooth_pictures
from benchmarks.zoo.pictures import of_pictures
from benchmarks.zoo.problem import Network

CLASSES, SIZE = 3, 16


class UNet(nn.Module):
    """Two steps down, two steps up by transposed convolutions, with the way across."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = block(3, 8), block(8, 16), block(16, 24)
        self.up2, self.back2 = nn.ConvTranspose2d(24, 16, 2, stride=2), block(32, 16)
        self.up1, self.back1 = nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1, output_padding=1), block(16, 8)
        self.head = nn.Conv2d(8, CLASSES, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """`[batch, 3, size, size]` to logits `[batch, classes, size, size]`."""
        first = self.first(images)
        second = self.second(F.avg_pool2d(first, 2))
        third = self.third(F.avg_pool2d(second, 2))
        second = self.back2(torch.cat([second, self.up2(third)], 1))
        logits: torch.Tensor = self.head(self.back1(torch.cat([first, self.up1(second)], 1)))
        return logits


def block(inputs: int, outputs: int) -> nn.Module:
    """Convolution, batch-norm, a smooth rectifier."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.SiLU())


def pixel_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """Cross-entropy averaged over the pixels of an image, `[batch]`."""
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none").mean((1, 2))


def segmented(count: int) -> list[Any]:
    """Pictures and a class for each of their pixels."""
    images, _ = smooth_pictures(count, SIZE)
    brightness = images.mean(1)
    return list(zip(images, (brightness > -0.5).long() + (brightness > 0.5).long(), strict=True))


class Autoencoder(nn.Module):
    """Convolutions down and transposed convolutions up again, in one or three dimensions; the second is grouped."""

    def __init__(self, dimensions: int) -> None:
        super().__init__()
        down = {1: nn.Conv1d, 3: nn.Conv3d}[dimensions]
        up = {1: nn.ConvTranspose1d, 3: nn.ConvTranspose3d}[dimensions]
        self.layers = nn.Sequential(
            down(2, 32, 3, stride=2, padding=1),
            nn.GELU(),
            up(32, 32, 3, stride=1, padding=1, groups=2),
            nn.GELU(),
            up(32, 2, 4, stride=2, padding=1),
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`[batch, 2, ...]` to the same."""
        outputs: torch.Tensor = self.layers(inputs)
        return outputs


def reconstruction_loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Mean squared error of a sample, `[batch]`."""
    outputs: torch.Tensor = model(batch)
    return (outputs - batch).square().flatten(1).mean(1)


class SqueezeExcite(nn.Module):
    """Depthwise and pointwise convolutions, channels gated by what the whole picture says, pooled to logits."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, stride=2, padding=1)
        self.depthwise, self.pointwise = nn.Conv2d(32, 32, 5, padding=2, groups=32), nn.Conv2d(32, 32, 1)
        self.squeeze, self.excite = nn.Linear(32, 8), nn.Linear(8, 32)
        self.head = nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """`[batch, 3, size, size]` to logits `[batch, classes]`."""
        hidden = F.silu(self.pointwise(F.silu(self.depthwise(F.silu(self.stem(images))))))
        gate = torch.sigmoid(self.excite(F.silu(self.squeeze(hidden.mean((2, 3))))))
        logits: torch.Tensor = self.head((hidden * gate[:, :, None, None]).mean((2, 3)))
        return logits


def depthwise_separable() -> nn.Module:
    """A stack of depthwise separable convolutions with batch-norm, as in MobileNet."""
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.SiLU()]
    for stride in (2, 1, 2):
        layers += [nn.Conv2d(32, 32, 3, stride, 1, groups=32, bias=False), nn.BatchNorm2d(32), nn.SiLU()]
        layers += [nn.Conv2d(32, 32, 1, bias=False), nn.BatchNorm2d(32), nn.SiLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def group_norm() -> nn.Module:
    """Convolutions between group-norms, and an RMS-norm before the classifier."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.GroupNorm(4, 32),
        nn.SiLU(),
        nn.Conv2d(32, 32, 3, stride=2, padding=1),
        nn.GroupNorm(4, 32),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.RMSNorm(128),
        nn.Linear(128, 10),
    )


NETWORKS = {
    "unet": Network("U-Net, a loss over all pixels", UNet, segmented, pixel_loss),
    "transposed-1d": Network(
        "ConvTranspose1d autoencoder",
        lambda: Autoencoder(1),
        lambda count: list(torch.randn(count, 2, 128)),
        reconstruction_loss,
    ),
    "transposed-3d": Network(
        "ConvTranspose3d autoencoder",
        lambda: Autoencoder(3),
        lambda count: list(torch.randn(count, 2, 6, 6, 6)),
        reconstruction_loss,
    ),
    "squeeze-excite": of_pictures("squeeze-and-excite", SqueezeExcite, SIZE),
    "depthwise": of_pictures("depthwise separable convolutions", depthwise_separable, SIZE),
    "group-norm": of_pictures("GroupNorm and RMSNorm", group_norm, SIZE),
}
