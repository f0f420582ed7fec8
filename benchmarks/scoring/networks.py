"""The networks that scoring is measured on, and how many samples each is given."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.scoring.inputs import CLASSES, PADDING, WORDS, pictures, sentences
from benchmarks.scoring.kinks import clear_of_kinks
from benchmarks.scoring.problem import Problem
from moso.errors import unknown_name
from moso.gradients import Loss, cross_entropy
from moso.models import build_model
from moso.models.compat import import_timm, import_transformers
from moso.randomness import seeded

LENGTH = 48


@dataclass(frozen=True)
class Network:
    """What it is, how it is made, and sizes that keep a run of all engines to a few minutes on two cores.

    `samples` are taken for the cost, the first `checked` of them for error and memory.
    """

    description: str
    build: Callable[[], nn.Module]
    inputs: Callable[[int], Any]
    loss: Loss
    samples: int
    checked: int
    batch: int


def text_loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Cross-entropy `[batch]` of a transformers classifier of sequences."""
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    return F.cross_entropy(logits, batch["labels"], reduction="none")


def picture_network(name: str) -> Callable[[], nn.Module]:
    """A maker of one of moso's networks for 32 x 32 images."""
    return lambda: build_model(name, (3, 32, 32), CLASSES, seed=0)


def vision_transformer() -> nn.Module:
    """timm's vision transformer, 6 layers of width 192, patches of 4 x 4."""
    import_timm()
    from timm.models.vision_transformer import VisionTransformer

    with seeded("benchmark", "vit"):
        model: nn.Module = VisionTransformer(
            img_size=32, patch_size=4, embed_dim=192, depth=6, num_heads=3, num_classes=CLASSES
        )
    return model


def encoder() -> nn.Module:
    """A BERT of 4 layers and width 192 that classifies sequences, with random weights."""
    transformers = import_transformers()
    settings = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=192,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=768,
        max_position_embeddings=LENGTH,
        num_labels=CLASSES,
        pad_token_id=PADDING,
    )
    with seeded("benchmark", "bert"):
        model: nn.Module = transformers.BertForSequenceClassification(settings)
    return model


NETWORKS = {
    "resnet8-w16": Network(
        "CIFAR ResNet of 8 layers, width 16", picture_network("resnet8"), pictures, cross_entropy, 2048, 256, 64
    ),
    "resnet20-w16": Network(
        "CIFAR ResNet of 20 layers, width 16", picture_network("resnet20"), pictures, cross_entropy, 1024, 128, 64
    ),
    "resnet18": Network(
        "ResNet-18 of timm, small-image stem", picture_network("resnet18"), pictures, cross_entropy, 256, 64, 64
    ),
    "efficientnet-b0": Network(
        "EfficientNet-B0 of timm, small-image stem",
        picture_network("efficientnet-b0"),
        pictures,
        cross_entropy,
        256,
        64,
        64,
    ),
    "vit": Network(
        "vision transformer of timm, 6 layers of width 192, patches of 4 x 4",
        vision_transformer,
        pictures,
        cross_entropy,
        384,
        64,
        64,
    ),
    "bert": Network(
        "BERT of transformers, 4 layers of width 192, sequences of 12 to 48 words, padded",
        encoder,
        lambda count: sentences(count, LENGTH),
        text_loss,
        384,
        64,
        64,
    ),
}


def find_network(name: str) -> Network:
    """The network of this name."""
    if name not in NETWORKS:
        raise unknown_name("network", name, NETWORKS)
    return NETWORKS[name]


def make_problem(name: str, samples: int = 0, batch: int = 0) -> Problem:
    """A network after a short training on twice as many samples, half of them left; sizes not given are its own."""
    network = find_network(name)
    count = samples or network.samples
    problem = Problem(name, network.build(), network.loss, network.inputs(2 * count), batch or network.batch)
    return clear_of_kinks(problem.trained(), count)
