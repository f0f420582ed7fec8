"""Networks of timm, untrained, with the small-image stem if images are small."""

import difflib

from torch import nn

from moso import errors
from moso.models.compat import import_timm
from moso.models.stem import SMALL_IMAGE, use_small_stem


def from_timm(name: str, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return timm's network of this name, untrained, for images of this shape.

    Args:
        name: Name of the network in timm.
        input_shape: `(channels, height, width)` of an image.
        classes: Number of outputs.

    Raises:
        UnknownName: timm has no network of this name.
        PackageMissing: timm is not installed.
    """
    timm = import_timm()
    if not timm.is_model(name):
        near = difflib.get_close_matches(name, timm.list_models(), n=3, cutoff=0.4)
        hint = f"nearest: {', '.join(near)}" if near else "timm.list_models() lists them"
        raise errors.UnknownName(f"unknown timm model {name!r}; {hint}")
    channels, height, width = input_shape
    # Transformers and mixers are built for one image size; other networks do not take the argument.
    settings = timm.get_pretrained_cfg(name)
    size = {"img_size": (height, width)} if settings is not None and settings.fixed_input_size else {}
    model: nn.Module = timm.create_model(name, pretrained=False, num_classes=classes, in_chans=channels, **size)
    if max(height, width) <= SMALL_IMAGE:
        use_small_stem(model)
    return model
