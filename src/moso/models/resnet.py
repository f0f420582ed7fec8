"""Residual networks for CIFAR-size images (He et al., 2016, section 4.2), of any width.

Three stages of 1, 2 or 3 blocks of two 3x3 convolutions: 8, 14 or 20 layers. From stage to stage the width doubles and
the image size halves. Shortcuts have no parameters: they take every second pixel and are padded with zero channels (the
paper's option A).
"""

import torch.nn.functional as F
from torch import Tensor, nn

STAGES = 3


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with batch-norm, added to their input."""

    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(filters)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(filters, filters, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters)
        self.relu2 = nn.ReLU()
        self.stride = stride
        self.missing = filters - channels

    def forward(self, images: Tensor) -> Tensor:
        """Map `[batch, channels, height, width]` to `[batch, filters, height / stride, width / stride]`."""
        change = self.norm2(self.conv2(self.relu1(self.norm1(self.conv1(images)))))
        # Every second pixel, as average pooling over windows of one: the gradient of a slice would not be
        # channels-last.
        shortcut = F.avg_pool2d(images, 1, self.stride) if self.stride > 1 else images
        if self.missing:
            shortcut = F.pad(shortcut, (0, 0, 0, 0, 0, self.missing))
        output: Tensor = self.relu2(shortcut + change)
        return output


class ResNet(nn.Module):
    """A CIFAR ResNet of `6 * blocks + 2` layers.

    Args:
        input_shape: `(channels, height, width)` of an image.
        classes: Number of outputs.
        width: Channels of the first stage.
        blocks: Blocks per stage.
        stem_stride: Stride of the first convolution.

    Example:
        >>> import torch
        >>> ResNet((3, 32, 32), classes=100, width=24, blocks=1)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 100])
    """

    def __init__(
        self, input_shape: tuple[int, ...], classes: int, width: int, blocks: int, stem_stride: int = 1
    ) -> None:
        super().__init__()
        first = nn.Conv2d(input_shape[0], width, 3, stem_stride, padding=1, bias=False)
        self.stem = nn.Sequential(first, nn.BatchNorm2d(width), nn.ReLU())
        stages: list[nn.Module] = []
        channels = width
        for stage in range(STAGES):
            for block in range(blocks):
                stages.append(ResidualBlock(channels, width * 2**stage, stride=2 if stage and not block else 1))
                channels = width * 2**stage
        self.blocks = nn.Sequential(*stages)
        self.classifier = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Return logits `[batch, classes]` of images `[batch, channels, height, width]`."""
        logits: Tensor = self.classifier(self.blocks(self.stem(images)).mean(dim=(2, 3)))
        return logits
