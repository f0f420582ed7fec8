"""Networks of the cpu preset: small enough for a day of two cores."""

import torch
from torch import Tensor, nn

from moso.models.resnet import ResidualBlock, ResNet

REDUCTION = 8


class SqueezeExcitation(nn.Module):
    """Channels weighed by what the whole picture says (Hu et al., CVPR 2018)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(channels, max(4, channels // REDUCTION))
        self.excite = nn.Linear(max(4, channels // REDUCTION), channels)

    def forward(self, images: Tensor) -> Tensor:
        """`[batch, channels, height, width]`, weighed."""
        weights = torch.sigmoid(self.excite(torch.relu(self.squeeze(images.mean(dim=(2, 3))))))
        return images * weights[:, :, None, None]


def resnet8(num_classes: int, input_shape: tuple[int, ...], width: int = 16) -> nn.Module:
    """The three-block CIFAR ResNet at half its resolution from the first layer on: a fifth of the time, on a CPU.

    >>> resnet8(100, (3, 32, 32))(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 100])
    """
    return ResNet(input_shape, num_classes, width=width, blocks=1, stem_stride=2)


def seresnet8(num_classes: int, input_shape: tuple[int, ...], width: int = 16) -> nn.Module:
    """The same with squeeze and excitation behind every block's second convolution.

    >>> seresnet8(100, (3, 32, 32))(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 100])
    """
    model = resnet8(num_classes, input_shape, width)
    assert isinstance(model, ResNet)
    for block in model.blocks:
        assert isinstance(block, ResidualBlock)
        norm = block.norm2
        block.norm2 = nn.Sequential(norm, SqueezeExcitation(norm.num_features))  # type: ignore[assignment]
    return model


class InvertedBottleneck(nn.Module):
    """EfficientNet's block: wider, a convolution a channel, channels weighed, narrower (Tan and Le, ICML 2019)."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.body = nn.Sequential(
            *_convolution(inputs, wide, 1),
            *_convolution(wide, wide, kernel, stride, groups=wide),
            SqueezeExcitation(wide),
            *_convolution(wide, outputs, 1)[:-1],
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, images: Tensor) -> Tensor:
        """`[batch, outputs, height / stride, width / stride]`."""
        found: Tensor = self.body(images)
        return images + found if self.residual else found


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.SiLU()]


# Channels, kernel, stride, expansion: the first three stages of EfficientNet-B0, five of its blocks, a little narrower.
_STAGES = ((16, 3, 1, 1), (24, 3, 2, 4), (24, 3, 1, 4), (40, 5, 2, 4), (40, 5, 1, 4))
_STEM, _HEAD = 16, 160


def small_efficientnet(num_classes: int, input_shape: tuple[int, ...]) -> nn.Module:
    """EfficientNet's blocks at the size of the other networks here; B0 itself takes fifteen times as long on a CPU.

    >>> small_efficientnet(100, (3, 32, 32))(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 100])
    """
    layers, channels = _convolution(input_shape[0], _STEM, 3, 2), _STEM
    for outputs, kernel, stride, expansion in _STAGES:
        layers.append(InvertedBottleneck(channels, outputs, kernel, stride, expansion))
        channels = outputs
    layers += _convolution(channels, _HEAD, 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(_HEAD, num_classes))
