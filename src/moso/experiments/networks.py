"""Networks of the cpu preset: small enough for a day of two cores."""

import torch
from torch import Tensor, nn

from moso.models.compat import import_timm
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


def efficientnet_b0(num_classes: int, input_shape: tuple[int, ...]) -> nn.Module:
    """timm's EfficientNet-B0 with the stem it has for large images: a third of the time."""
    model: nn.Module = import_timm().create_model("efficientnet_b0", num_classes=num_classes, in_chans=input_shape[0])
    return model
