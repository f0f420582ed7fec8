"""Networks of timm: untrained, with the small-image stem if images are small, or with timm's pretrained weights."""

import difflib
from typing import Any

from torch import nn

from moso import errors
from moso.models.compat import import_timm
from moso.models.stem import SMALL_IMAGE, use_small_stem


def from_timm(
    name: str, input_shape: tuple[int, ...], classes: int, *, pretrained: bool = False, own_stem: bool = False
) -> nn.Module:
    """Return timm's network of this name for images of this shape.

    Args:
        name: Name of the network in timm.
        input_shape: `(channels, height, width)` of an image.
        classes: Number of outputs.
        pretrained: Take timm's own weights, from its cache or the hub; the classifier is new.
        own_stem: Keep the first layers as they are, because weights were trained with them.

    Raises:
        UnknownName: timm has no network of this name.
        PackageMissing: timm is not installed.
        DownloadFailed: The pretrained weights cannot be had.
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
    try:
        model: nn.Module = timm.create_model(
            name, pretrained=pretrained, num_classes=classes, in_chans=channels, **size
        )
    except Exception as problem:  # the hub's client raises errors of several packages
        if not pretrained:
            raise
        raise errors.DownloadFailed(
            f"the pretrained weights of timm:{name} cannot be had: {str(problem).strip().splitlines()[0]}; fetch them "
            "once where there is a network connection, or give a file of weights with --weights"
        ) from problem
    if max(height, width) <= SMALL_IMAGE and not (pretrained or own_stem):
        use_small_stem(model)
    return model


def pretrained_settings(name: str) -> dict[str, Any] | None:
    """Return what timm says its pretrained weights expect: `input_size`, `mean`, `std`; None if it says nothing.

    Args:
        name: Name of the network in timm.
    """
    found = import_timm().get_pretrained_cfg(name)
    return None if found is None else {part: getattr(found, part) for part in ("input_size", "mean", "std")}
