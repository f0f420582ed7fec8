"""Networks by name, and the one function that builds them.

A name is a built-in network (`convnet`, or with another width `convnet-w32`), a short name for one of timm's
(`resnet18`), a network of an installed package (entry points `moso.models`), `timm:NAME` for any other network of timm,
`bert:LAYERSxWIDTH` or `gpt:LAYERSxWIDTH` for an encoder or decoder of transformers, `hf:FOLDER` for any model of
transformers, or `package.module:factory` for the user's own.
"""

import re
from functools import partial

import torch
from torch import nn

from moso import errors
from moso.code_trust import is_code
from moso.data.tokenizer import UNKNOWN
from moso.models.bag import BagOfWords
from moso.models.bert import HEAD_WIDTH, Encoder
from moso.models.convnet import ConvNet
from moso.models.factory import from_factory
from moso.models.freezing import freeze
from moso.models.from_timm import from_timm
from moso.models.gpt import Decoder
from moso.models.mlp import MultilayerPerceptron, PerceptronHead, TanhNetwork
from moso.models.network import Network
from moso.models.resnet import ResNet
from moso.models.softmax_regression import SoftmaxRegression
from moso.models.start import FROM_SCRATCH, Start
from moso.models.transformers_folder import is_of_transformers
from moso.models.transformers_network import transformers_network
from moso.models.two_towers import TwoTowers
from moso.models.weights import load_weights, read_weights
from moso.randomness import seeded
from moso.registry import Registry
from moso.tasks.task import Outputs

_TIMM = {
    "resnet18": ("resnet18", "ResNet-18"),
    "resnet34": ("resnet34", "ResNet-34"),
    "resnet50": ("resnet50", "ResNet-50"),
    "seresnet18": ("seresnet18", "SE-ResNet-18"),
    "seresnet50": ("seresnet50", "SE-ResNet-50"),
    "efficientnet-b0": ("efficientnet_b0", "EfficientNet-B0"),
}


def _bag(shape: tuple[int, ...], classes: int, width: int) -> nn.Module:
    return BagOfWords(shape[0], classes, width)


def _bert(shape: tuple[int, ...], classes: int, layers: int = 2, width: int = 64) -> nn.Module:
    vocabulary, length = shape
    return Encoder(vocabulary, length, classes, layers, width)


def _gpt(shape: tuple[int, ...], classes: int, layers: int = 2, width: int = 64) -> nn.Module:
    vocabulary, length = shape
    return Decoder(vocabulary, length, layers, width)


_SIZED = {"bert": _bert, "gpt": _gpt}

MODELS = Registry(
    "model",
    Network,
    "moso.models",
    (
        Network("linear", "softmax regression, the convex problem", SoftmaxRegression, "numbers"),
        Network("tanh", "one hidden layer of 16 tanh units, for exact leave-one-out", TanhNetwork, "numbers", 16),
        Network("mlp", "two hidden layers of 128 rectified units", MultilayerPerceptron, "numbers", 128),
        Network("mlp-head", "one hidden layer of 128 rectified units, for features", PerceptronHead, "numbers", 128),
        Network("convnet", "three convolutions with batch-norm, width 16, for 8 to 32 pixels", ConvNet, "images", 16),
        Network("resnet8", "CIFAR ResNet of 3 blocks, width 16", partial(ResNet, blocks=1), "images", 16),
        Network("resnet14", "CIFAR ResNet of 6 blocks, width 16", partial(ResNet, blocks=2), "images", 16),
        Network("resnet20", "CIFAR ResNet of 9 blocks, width 16", partial(ResNet, blocks=3), "images", 16),
        Network("bag", "texts: the mean of word vectors of width 64, one hidden layer", _bag, "texts", 64),
        Network(
            "bert",
            "texts: a BERT-like encoder, random weights, from transformers; 2 layers of width 64 (others: bert:4x128)",
            _bert,
            "texts",
        ),
        Network("two-towers", "pairs: a convnet (or a hidden layer) and a bag of words", TwoTowers, "numbers", 32),
        Network(
            "gpt",
            "texts: a GPT-2-like decoder for causal-lm, random weights; 2 layers of width 64 (others: gpt:4x128)",
            _gpt,
            "texts",
        ),
        *(
            Network(name, f"{title}, from timm; 3x3 stem up to 64 pixels", partial(from_timm, of_timm), "images")
            for name, (of_timm, title) in _TIMM.items()
        ),
    ),
)
# Widest layer and deepest network that a name may ask for.
_WIDEST = 65_536


def models() -> list[tuple[str, str]]:
    """Return names and descriptions of networks; `timm:NAME` and `package.module:factory` are not listed.

    Example:
        >>> [name for name, _ in models()][:4]
        ['linear', 'tanh', 'mlp', 'mlp-head']
    """
    return [(name, network.full_description) for name, network in MODELS.all().items()]


def build_model(
    name: str,
    input_shape: tuple[int, ...],
    classes: Outputs,
    seed: int,
    *,
    vocabulary: int | None = None,
    start: Start = FROM_SCRATCH,
    task: str = "",
) -> nn.Module:
    """Build the network of this name on the CPU, in training mode, with the initial parameters w_0 of `seed`.

    Args:
        name: Name of the network; the module docstring lists the forms.
        input_shape: Shape of one input.
        classes: The task's `outputs`: one per class, or one per number to predict. If it is a shape, the network is
            built with `classes[0]` and must give outputs of that shape.
        seed: Seed of the initialisation.
        vocabulary: Number of token ids, if inputs are texts.
        start: Weights to start from, and what of the network is trained; the classifier is always of this seed.
        task: Name of the task, which decides the head of a model of transformers.

    Raises:
        UnknownName: There is no network of this name.
        ModelNameInvalid: The name is malformed.
        ModelUnsuitable: The network does not take such inputs or does not give such outputs.
        FactoryBroken: The user's factory fails.
        SettingsConflict: The network has no pretrained weights.
        DownloadFailed: The pretrained weights cannot be had.
        WeightsMismatch: The weights of a file do not fit the network.

    Example:
        >>> first = build_model("convnet", (1, 8, 8), classes=10, seed=0)
        >>> again = build_model("convnet", (1, 8, 8), classes=10, seed=0)
        >>> bool((first.classifier.weight == again.classifier.weight).all())
        True
        >>> build_model("convnt", (1, 8, 8), classes=10, seed=0)
        Traceback (most recent call last):
        ...
        moso.errors.UnknownName: unknown model 'convnt'; nearest: convnet ...
    """
    # The check is inside the context, because lazy layers draw their parameters in the first forward pass.
    with seeded(seed, "init"), torch.device("cpu"):
        outputs = classes if isinstance(classes, int) else classes[0]
        if is_of_transformers(name):
            if start.pretrained:
                raise errors.SettingsConflict(f"model '{name}' has the weights of its folder; leave pretrained out")
            model: nn.Module = transformers_network(name, task, tuple(input_shape), outputs, vocabulary)
        else:
            model = _make(name, tuple(input_shape), outputs, vocabulary, start)
        check_model(model, name, tuple(input_shape), classes, vocabulary)
    if start.weights:
        load_weights(model, read_weights(start.weights), start.weights)
    with seeded(seed, "init", start.train):  # adapters draw their weights
        freeze(model, start.train)
    return model


def _make(name: str, input_shape: tuple[int, ...], classes: int, vocabulary: int | None, start: Start) -> nn.Module:
    if is_code(name):
        return from_factory(name, input_shape, classes, vocabulary, pretrained=start.pretrained)
    of_timm = timm_name(name)
    if of_timm is not None and not start.is_from_scratch:
        _expect(name, Network(name, "", from_timm, "images"), input_shape, vocabulary)
        return from_timm(of_timm, input_shape, classes, pretrained=start.pretrained, own_stem=True)
    network, width = _named(name)
    if start.pretrained:
        raise errors.SettingsConflict(
            f"model '{name}' has no pretrained weights; timm's networks have (timm:NAME), or name a file (weights)"
        )
    _expect(name, network, input_shape, vocabulary)
    shape = input_shape if vocabulary is None else (vocabulary, *input_shape)
    return network.make(shape, classes) if width is None else network.make(shape, classes, width=width)


def timm_name(name: str) -> str | None:
    """Return timm's name of a network, or None if the network is not timm's.

    Example:
        >>> timm_name("timm:resnet26"), timm_name("efficientnet-b0"), timm_name("convnet")
        ('resnet26', 'efficientnet_b0', None)
    """
    if name.startswith("timm:"):
        return name.removeprefix("timm:")
    return _TIMM[name][0] if name in _TIMM else None


def starts_at_random(name: str, start: Start) -> bool:
    """Return whether the network of this name is known to start from random weights.

    The user's own network, one of another package and a model of transformers may bring weights of their own.

    Raises:
        UnknownName: There is no network of this name.
        ModelNameInvalid: The name is malformed.

    Example:
        >>> starts_at_random("timm:resnet26", FROM_SCRATCH), starts_at_random("my_module:make", FROM_SCRATCH)
        (True, False)
        >>> starts_at_random("timm:resnet26", Start(pretrained=True))
        False
    """
    if not start.is_from_scratch or is_code(name) or is_of_transformers(name):
        return False
    network, _ = _named(name)
    return ":" in name or network.name in MODELS.built_in()


def check_embeds(name: str, start: Start) -> None:
    """Refuse a network of random weights as the one that computes features.

    Raises:
        SettingMissing: The network has random weights.
        MosoError: ``unknown-name``, ``model-name-invalid``.

    Example:
        >>> check_embeds("timm:resnet26", FROM_SCRATCH)
        Traceback (most recent call last):
        ...
        moso.errors.SettingMissing: 'timm:resnet26' would have random weights, and features of random weights say ...
    """
    if starts_at_random(name, start):
        raise errors.SettingMissing(
            f"{name!r} would have random weights, and features of random weights say nothing; give its trained ones: "
            "--pretrained (timm's), or --weights FILE"
        )


def _named(name: str) -> tuple[Network, int | None]:
    """Return the network of this name, and its width if it has one."""
    if name.startswith("timm:"):
        return Network(name, "", partial(from_timm, name.removeprefix("timm:")), "images"), None
    kind = name.partition(":")[0]
    if ":" in name and kind in _SIZED:
        layers, of_each = _size(name, kind)
        return Network(name, "", partial(_SIZED[kind], layers=layers, width=of_each), "texts"), None
    widened = re.fullmatch(r"(.+)-w([1-9][0-9]*)", name)
    base, width = (widened[1], _number(widened[2], name)) if widened else (name, None)
    # An exact match comes first: the name of another package's network may end like a width.
    network = MODELS.find(name) or MODELS.find(base)
    if network is None:
        raise MODELS.unknown(
            name, "bert:LAYERSxWIDTH", "gpt:LAYERSxWIDTH", "hf:FOLDER", "timm:NAME", "package.module:factory"
        )
    if network.name == name:
        return network, network.width
    if network.width is None:
        others = ", ".join(one.name for one in MODELS.built_in().values() if one.width is not None)
        raise errors.ModelNameInvalid(f"model '{base}' has one width only; {others} have a width of choice")
    return network, width


def _number(text: str, name: str) -> int:
    """Return a width or a number of layers.

    Raises:
        ModelNameInvalid: It is larger than any network that fits a machine.
    """
    if len(text) > len(str(_WIDEST)) or int(text) > _WIDEST:
        raise errors.ModelNameInvalid(f"model '{name}' asks for {text[:20]}, and at most {_WIDEST} are possible")
    return int(text)


def _size(name: str, kind: str) -> tuple[int, int]:
    size = re.fullmatch(rf"{kind}:([1-9][0-9]*)x([1-9][0-9]*)", name)
    if size is None:
        raise errors.ModelNameInvalid(f"model '{name}' is not of the form {kind}:LAYERSxWIDTH, for example {kind}:2x64")
    layers, width = _number(size[1], name), _number(size[2], name)
    if width > HEAD_WIDTH and width % HEAD_WIDTH:
        raise errors.ModelNameInvalid(
            f"model '{name}': a width above {HEAD_WIDTH} must be a multiple of it, which is one head",
        )
    return layers, width


def _expect(name: str, network: Network, input_shape: tuple[int, ...], vocabulary: int | None) -> None:
    """Refuse a network that is made for other kinds of inputs."""
    takes = network.takes
    if (takes == "texts") != (vocabulary is not None):
        if takes == "texts":
            raise errors.ModelUnsuitable(
                f"model '{name}' takes texts, but inputs are of shape {input_shape}; 'mlp' takes any numbers"
            )
        raise errors.ModelUnsuitable(f"model '{name}' takes {takes}, but inputs are texts; 'bag' and 'bert' take those")
    if takes == "images" and (len(input_shape) != 3 or 0 in input_shape):
        raise errors.ModelUnsuitable(
            f"model '{name}' takes images (channels, height, width) but inputs are of shape {input_shape}; "
            "'linear', 'tanh' and 'mlp' take inputs of any shape"
        )


def check_model(
    model: nn.Module, name: str, input_shape: tuple[int, ...], classes: Outputs, vocabulary: int | None = None
) -> None:
    """Refuse a network that does not turn a batch of such inputs into outputs of the expected shape.

    Two inputs of zeros, or two texts of unknown words, are passed through the network in evaluation mode; afterwards
    all modules are in their earlier modes.

    Args:
        model: The network.
        name: Name of the network in errors.
        input_shape: Shape of one input.
        classes: Number of outputs, or shape of the output, per sample.
        vocabulary: Number of token ids, if inputs are texts.

    Raises:
        ModelUnsuitable: The forward pass fails, the output has another shape, or no parameter is trainable.

    Example:
        >>> check_model(nn.Flatten(), "flatten", (1, 8, 8), classes=10)
        Traceback (most recent call last):
        ...
        moso.errors.ModelUnsuitable: model 'flatten' gives (2, 64) for a batch of 2 where (2, 10) was expected, ...
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            shape = (2, *input_shape)
            logits = model(torch.zeros(shape) if vocabulary is None else torch.full(shape, UNKNOWN))
    except Exception as problem:
        raise errors.ModelUnsuitable(
            f"model '{name}' does not take inputs of shape {input_shape}: {type(problem).__name__}: {problem}"
        ) from problem
    finally:
        for module, mode in modes:
            module.training = mode
    if not isinstance(logits, torch.Tensor):
        raise errors.ModelUnsuitable(
            f"model '{name}' gives a {type(logits).__name__} where a tensor of logits was expected"
        )
    expected = (2, classes) if isinstance(classes, int) else (2, *classes)
    if tuple(logits.shape) != expected:
        raise errors.ModelUnsuitable(
            f"model '{name}' gives {tuple(logits.shape)} for a batch of 2 where {expected} was expected, "
            "one logit a class"
        )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise errors.ModelUnsuitable(f"model '{name}' has no trainable parameters")
