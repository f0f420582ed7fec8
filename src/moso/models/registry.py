"""Networks by name, and the one way to build one.

A name is a built-in network (`convnet`, with a width of its own: `convnet-w32`), a plain name for one of timm's
(`resnet18`), `timm:NAME` for all the others, `bert:LAYERSxWIDTH` for an encoder of transformers, or
`package.module:factory` for the user's own.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import nn

from moso.data.tokenizer import UNKNOWN
from moso.errors import MosoError, unknown_name
from moso.models.bag import BagOfWords
from moso.models.bert import HEAD_WIDTH, Encoder
from moso.models.convnet import ConvNet
from moso.models.factory import from_factory
from moso.models.from_timm import from_timm
from moso.models.mlp import MultilayerPerceptron, TanhNetwork
from moso.models.resnet import ResNet
from moso.models.softmax_regression import SoftmaxRegression
from moso.randomness import seeded
from moso.tasks.task import Outputs

Inputs = Literal["numbers", "images", "texts"]


@dataclass(frozen=True)
class _BuiltIn:
    make: Callable[..., nn.Module]
    description: str
    width: int | None
    takes: Inputs


_BUILT_IN = {
    "linear": _BuiltIn(SoftmaxRegression, "softmax regression, the convex problem", None, "numbers"),
    "tanh": _BuiltIn(TanhNetwork, "one hidden layer of 16 tanh units, for exact leave-one-out", 16, "numbers"),
    "mlp": _BuiltIn(MultilayerPerceptron, "two hidden layers of 128 rectified units", 128, "numbers"),
    "convnet": _BuiltIn(ConvNet, "three convolutions with batch-norm, width 16, for 8 to 32 pixels", 16, "images"),
    "resnet8": _BuiltIn(partial(ResNet, blocks=1), "CIFAR ResNet of 3 blocks, width 16", 16, "images"),
    "resnet14": _BuiltIn(partial(ResNet, blocks=2), "CIFAR ResNet of 6 blocks, width 16", 16, "images"),
    "resnet20": _BuiltIn(partial(ResNet, blocks=3), "CIFAR ResNet of 9 blocks, width 16", 16, "images"),
    "bag": _BuiltIn(BagOfWords, "texts: the mean of word vectors of width 64, one hidden layer", 64, "texts"),
}
_TIMM = {
    "resnet18": ("resnet18", "ResNet-18"),
    "resnet34": ("resnet34", "ResNet-34"),
    "resnet50": ("resnet50", "ResNet-50"),
    "seresnet18": ("seresnet18", "SE-ResNet-18"),
    "seresnet50": ("seresnet50", "SE-ResNet-50"),
    "efficientnet-b0": ("efficientnet_b0", "EfficientNet-B0"),
}
_BERT = (2, 64)
_OTHER_FORMS = ("bert", "bert:LAYERSxWIDTH", "timm:NAME", "package.module:factory")


def models() -> list[tuple[str, str]]:
    """The names of networks and what they are; `timm:NAME` and `package.module:factory` are not listed.

    >>> [name for name, _ in models()][:4]
    ['linear', 'tanh', 'mlp', 'convnet']
    """
    built_in = [
        (name, entry.description + ("" if entry.width is None else f" (another width: {name}-w{2 * entry.width})"))
        for name, entry in _BUILT_IN.items()
    ]
    layers, width = _BERT
    shape = f"{layers} layers of width {width} (others: bert:{2 * layers}x{2 * width})"
    bert = ("bert", f"texts: a BERT-like encoder, random weights, from transformers; {shape}")
    from_timm = [(name, f"{title}, from timm; 3x3 stem up to 64 pixels") for name, (_, title) in _TIMM.items()]
    return [*built_in, bert, *from_timm]


def build_model(
    name: str,
    input_shape: tuple[int, ...],
    classes: Outputs,
    seed: int,
    *,
    vocabulary: int | None = None,
) -> nn.Module:
    """The network of this name, on the CPU, in training mode, with the one w_0 that belongs to `seed`.

    `classes` is the task's `outputs`: one per class, or one per number to predict; of a shape, `classes[0]` is what the
    network is told, and the shape is what it must give. `vocabulary` is the number of token ids where inputs are texts.

    >>> first = build_model("convnet", (1, 8, 8), classes=10, seed=0)
    >>> again = build_model("convnet", (1, 8, 8), classes=10, seed=0)
    >>> bool((first.classifier.weight == again.classifier.weight).all())
    True
    >>> build_model("convnt", (1, 8, 8), classes=10, seed=0)
    Traceback (most recent call last):
    ...
    moso.errors.MosoError: unknown model 'convnt'; nearest: convnet ...
    """
    # The check is inside: lazy layers draw their parameters at the first forward pass.
    with seeded(seed, "init"), torch.device("cpu"):
        model = _make(name, tuple(input_shape), classes if isinstance(classes, int) else classes[0], vocabulary)
        check_model(model, name, tuple(input_shape), classes, vocabulary)
    return model


def _make(name: str, input_shape: tuple[int, ...], classes: int, vocabulary: int | None) -> nn.Module:
    if name == "bert" or name.startswith("bert:"):
        _expect(name, "texts", input_shape, vocabulary)
        assert vocabulary is not None
        return Encoder(vocabulary, input_shape[0], classes, *_bert_size(name))
    if name.startswith("timm:"):
        _expect(name, "images", input_shape, vocabulary)
        return from_timm(name.removeprefix("timm:"), input_shape, classes)
    if ":" in name:
        return from_factory(name, input_shape, classes, vocabulary)
    if name in _TIMM:
        _expect(name, "images", input_shape, vocabulary)
        return from_timm(_TIMM[name][0], input_shape, classes)
    widened = re.fullmatch(r"(.+)-w([1-9][0-9]*)", name)
    base, width = (widened[1], int(widened[2])) if widened else (name, None)
    entry = _BUILT_IN.get(base)
    if entry is None:
        if base in _TIMM:
            raise MosoError(f"model '{base}' has one width only; {', '.join(_with_widths())} have a width of choice")
        raise unknown_name("model", name, [*_BUILT_IN, *_TIMM, *_OTHER_FORMS])
    _expect(name, entry.takes, input_shape, vocabulary)
    given = vocabulary if entry.takes == "texts" else input_shape
    if entry.width is None:
        if width is not None:
            raise MosoError(f"model '{base}' has no width; {', '.join(_with_widths())} have one")
        return entry.make(given, classes)
    return entry.make(given, classes, width=width or entry.width)


def _bert_size(name: str) -> tuple[int, int]:
    if name == "bert":
        return _BERT
    size = re.fullmatch(r"bert:([1-9][0-9]*)x([1-9][0-9]*)", name)
    if size is None:
        raise MosoError(f"model '{name}' is not of the form bert:LAYERSxWIDTH, for example bert:2x64")
    layers, width = int(size[1]), int(size[2])
    if width > HEAD_WIDTH and width % HEAD_WIDTH:
        raise MosoError(f"model '{name}': a width above {HEAD_WIDTH} must be a multiple of it, which is one head")
    return layers, width


def _with_widths() -> list[str]:
    return [name for name, entry in _BUILT_IN.items() if entry.width is not None]


def _expect(name: str, takes: Inputs, input_shape: tuple[int, ...], vocabulary: int | None) -> None:
    """Refuse a network that is made for other inputs than these."""
    if (takes == "texts") != (vocabulary is not None):
        if takes == "texts":
            raise MosoError(
                f"model '{name}' takes texts, but inputs are of shape {input_shape}; 'mlp' takes any numbers"
            )
        raise MosoError(f"model '{name}' takes {takes}, but inputs are texts; 'bag' and 'bert' take those")
    if takes == "images" and (len(input_shape) != 3 or 0 in input_shape):
        raise MosoError(
            f"model '{name}' takes images (channels, height, width) but inputs are of shape {input_shape}; "
            "'linear', 'tanh' and 'mlp' take inputs of any shape"
        )


def check_model(
    model: nn.Module, name: str, input_shape: tuple[int, ...], classes: Outputs, vocabulary: int | None = None
) -> None:
    """Refuse a network that does not turn a batch of such inputs into logits, `[batch, classes]` or of a task's shape.

    Two inputs of zeros, or two texts of unknown words, go through it in evaluation mode; its modes are afterwards what
    they were.

    >>> check_model(nn.Flatten(), "flatten", (1, 8, 8), classes=10)
    Traceback (most recent call last):
    ...
    moso.errors.MosoError: model 'flatten' gives (2, 64) for a batch of 2 where (2, 10) was expected, one logit a class
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            shape = (2, *input_shape)
            logits = model(torch.zeros(shape) if vocabulary is None else torch.full(shape, UNKNOWN))
    except Exception as problem:
        raise MosoError(
            f"model '{name}' does not take inputs of shape {input_shape}: {type(problem).__name__}: {problem}"
        ) from problem
    finally:
        for module, mode in modes:
            module.training = mode
    if not isinstance(logits, torch.Tensor):
        raise MosoError(f"model '{name}' gives a {type(logits).__name__} where a tensor of logits was expected")
    expected = (2, classes) if isinstance(classes, int) else (2, *classes)
    if tuple(logits.shape) != expected:
        raise MosoError(
            f"model '{name}' gives {tuple(logits.shape)} for a batch of 2 where {expected} was expected, "
            "one logit a class"
        )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise MosoError(f"model '{name}' has no trainable parameters")
