"""The small-image stem: the first layers of networks made for 224 pixels discard most of a 32-pixel image.

For images of up to 64 pixels the first convolution becomes 3x3 with stride 1 and the max-pool after it is removed.
ResNets of all kinds (`conv1`, `maxpool`) and the EfficientNet and MobileNet families (`conv_stem`) are recognised by
timm's names of these layers; any other network stays as it is.
"""

from torch import nn

SMALL_IMAGE = 64


def use_small_stem(model: nn.Module) -> bool:
    """Replace the stem of a timm network by the small-image stem, in place.

    Returns:
        False if the network's first layers are not recognised.

    Example:
        >>> class Large(nn.Module):
        ...     def __init__(self) -> None:
        ...         super().__init__()
        ...         self.conv1, self.maxpool = nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False), nn.MaxPool2d(3)
        >>> model = Large()
        >>> use_small_stem(model)
        True
        >>> model.conv1, model.maxpool
        (Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False), Identity())
    """
    stem = getattr(model, "conv_stem", None)
    if isinstance(stem, nn.Conv2d):
        stem.stride = (1, 1)  # this convolution is 3x3 already
        return True
    first, pool = getattr(model, "conv1", None), getattr(model, "maxpool", None)
    if not isinstance(pool, nn.Module):
        return False
    if isinstance(first, nn.Conv2d):
        model.conv1 = _three_by_three(first)
    elif isinstance(first, nn.Sequential) and isinstance(first[0], nn.Conv2d):
        first[0].stride = (1, 1)  # the deep stems begin with a 3x3 convolution
    else:
        return False
    model.maxpool = nn.Identity()
    return True


def _three_by_three(first: nn.Conv2d) -> nn.Conv2d:
    small = nn.Conv2d(first.in_channels, first.out_channels, 3, stride=1, padding=1, bias=first.bias is not None)
    nn.init.kaiming_normal_(small.weight, mode="fan_out", nonlinearity="relu")  # timm's initialisation of the old layer
    return small
