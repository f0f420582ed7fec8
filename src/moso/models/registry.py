"""Networks by name, and the one way to build one.

A name is a built-in network (`convnet`, with a width of its own: `convnet-w32`), a plain name for one of timm's
(`resnet18`), `timm:NAME` for all the others, or `package.module:factory` for the user's own.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from moso.errors import MosoError, unknown_name
from moso.models.convnet import ConvNet
from moso.models.factory import from_factory
from moso.models.from_timm import from_timm
from moso.models.linear import SoftmaxRegression
from moso.models.mlp import MultilayerPerceptron, TanhNetwork
from moso.models.resnet import ResNet
from moso.randomness import seeded


@dataclass(frozen=True)
class _BuiltIn:
    make: Callable[..., nn.Module]
    description: str
    width: int | None
    images: bool


_BUILT_IN = {
    "linear": _BuiltIn(SoftmaxRegression, "softmax regression, the convex problem", None, images=False),
    "tanh": _BuiltIn(TanhNetwork, "one hidden layer of 16 tanh units, for exact leave-one-out", 16, images=False),
    "mlp": _BuiltIn(MultilayerPerceptron, "two hidden layers of 128 rectified units", 128, images=False),
    "convnet": _BuiltIn(ConvNet, "three convolutions with batch-norm, width 16, for 8 to 32 pixels", 16, images=True),
    "resnet8": _BuiltIn(partial(ResNet, blocks=1), "CIFAR ResNet of 3 blocks, width 16", 16, images=True),
    "resnet14": _BuiltIn(partial(ResNet, blocks=2), "CIFAR ResNet of 6 blocks, width 16", 16, images=True),
    "resnet20": _BuiltIn(partial(ResNet, blocks=3), "CIFAR ResNet of 9 blocks, width 16", 16, images=True),
}
_TIMM = {
    "resnet18": ("resnet18", "ResNet-18"),
    "resnet34": ("resnet34", "ResNet-34"),
    "resnet50": ("resnet50", "ResNet-50"),
    "seresnet18": ("seresnet18", "SE-ResNet-18"),
    "seresnet50": ("seresnet50", "SE-ResNet-50"),
    "efficientnet-b0": ("efficientnet_b0", "EfficientNet-B0"),
}
_OTHER_FORMS = ("timm:NAME", "package.module:factory")


def models() -> list[tuple[str, str]]:
    """The names of networks and what they are; `timm:NAME` and `package.module:factory` are not listed.

    >>> [name for name, _ in models()][:4]
    ['linear', 'tanh', 'mlp', 'convnet']
    """
    built_in = [
        (name, entry.description + ("" if entry.width is None else f" (another width: {name}-w{2 * entry.width})"))
        for name, entry in _BUILT_IN.items()
    ]
    from_timm = [(name, f"{title}, from timm; 3x3 stem up to 64 pixels") for name, (_, title) in _TIMM.items()]
    return built_in + from_timm


def build_model(name: str, input_shape: tuple[int, ...], classes: int, seed: int) -> nn.Module:
    """The network of this name, on the CPU, in training mode, with the one w_0 that belongs to `seed`.

    >>> first = build_model("convnet", (1, 8, 8), classes=10, seed=0)
    >>> again = build_model("convnet", (1, 8, 8), classes=10, seed=0)
    >>> bool((first.classifier.weight == again.classifier.weight).all())
    True
    >>> build_model("convnt", (1, 8, 8), classes=10, seed=0)
    Traceback (most recent call last):
    ...
    moso.errors.MosoError: unknown model 'convnt'; nearest: convnet ...
    """
    if classes < 2:
        raise MosoError(f"a classifier needs at least 2 classes, not {classes}")
    # The check is inside: lazy layers draw their parameters at the first forward pass.
    with seeded(seed, "init"), torch.device("cpu"):
        model = _make(name, tuple(input_shape), classes)
        check_model(model, name, tuple(input_shape), classes)
    return model


def _make(name: str, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    if name.startswith("timm:"):
        _expect_images(name, input_shape)
        return from_timm(name.removeprefix("timm:"), input_shape, classes)
    if ":" in name:
        return from_factory(name, input_shape, classes)
    if name in _TIMM:
        _expect_images(name, input_shape)
        return from_timm(_TIMM[name][0], input_shape, classes)
    widened = re.fullmatch(r"(.+)-w([1-9][0-9]*)", name)
    base, width = (widened[1], int(widened[2])) if widened else (name, None)
    entry = _BUILT_IN.get(base)
    if entry is None:
        if base in _TIMM:
            raise MosoError(f"model '{base}' has one width only; {', '.join(_with_widths())} have a width of choice")
        raise unknown_name("model", name, [*_BUILT_IN, *_TIMM, *_OTHER_FORMS])
    if entry.images:
        _expect_images(name, input_shape)
    if entry.width is None:
        if width is not None:
            raise MosoError(f"model '{base}' has no width; {', '.join(_with_widths())} have one")
        return entry.make(input_shape, classes)
    return entry.make(input_shape, classes, width=width or entry.width)


def _with_widths() -> list[str]:
    return [name for name, entry in _BUILT_IN.items() if entry.width is not None]


def _expect_images(name: str, input_shape: tuple[int, ...]) -> None:
    if len(input_shape) != 3 or 0 in input_shape:
        raise MosoError(
            f"model '{name}' takes images (channels, height, width) but inputs are of shape {input_shape}; "
            "'linear', 'tanh' and 'mlp' take inputs of any shape"
        )


def check_model(model: nn.Module, name: str, input_shape: tuple[int, ...], classes: int) -> None:
    """Refuse a network that does not turn a batch of such inputs into `[batch, classes]` logits.

    Two inputs of zeros go through it in evaluation mode; its modes are afterwards what they were.

    >>> check_model(nn.Flatten(), "flatten", (1, 8, 8), classes=10)
    Traceback (most recent call last):
    ...
    moso.errors.MosoError: model 'flatten' gives (2, 64) for a batch of 2 where (2, 10) was expected, one logit a class
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            logits = model(torch.zeros(2, *input_shape))
    except Exception as problem:
        raise MosoError(
            f"model '{name}' does not take inputs of shape {input_shape}: {type(problem).__name__}: {problem}"
        ) from problem
    finally:
        for module, mode in modes:
            module.training = mode
    if not isinstance(logits, torch.Tensor):
        raise MosoError(f"model '{name}' gives a {type(logits).__name__} where a tensor of logits was expected")
    if tuple(logits.shape) != (2, classes):
        raise MosoError(
            f"model '{name}' gives {tuple(logits.shape)} for a batch of 2 where {(2, classes)} was expected, "
            "one logit a class"
        )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise MosoError(f"model '{name}' has no trainable parameters")
