"""The networks that the benchmark is about: no fallback runs on any of them, and their scores are the exact ones."""

import logging
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from moso.gradients import Point, cross_entropy, time_step
from moso.gradients.trust import plan_for
from moso.models import build_model
from moso.models.compat import import_timm, import_transformers

COUNT = 6


def images(name: str, size: int = 32):
    def make():
        return build_model(name, (3, size, size), 10, seed=0), torch.randn(COUNT, 3, size, size), cross_entropy

    return make


def vision_transformer():
    transformer = import_timm().models.vision_transformer.VisionTransformer
    model = transformer(img_size=16, patch_size=4, embed_dim=32, depth=2, num_heads=2, num_classes=10)
    return model, torch.randn(COUNT, 3, 16, 16), cross_entropy


def encoder():
    transformers = import_transformers()
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=16, num_labels=10,
    )  # fmt: skip
    tokens = torch.randint(1, 50, (COUNT, 12))
    tokens[:, 9:] = 0

    def loss(model, batch):
        found = model(input_ids=batch[0], attention_mask=(batch[0] > 0).long()).logits
        return F.cross_entropy(found, batch[1], reduction="none")

    return transformers.BertForSequenceClassification(config), tokens, loss


NETWORKS = {
    "resnet20 of width 16": images("resnet20-w16", 16),
    "resnet18": images("resnet18", 8),
    "efficientnet-b0": images("efficientnet-b0"),
    "vision transformer": vision_transformer,
    "encoder of text": encoder,
}


def made(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor, object]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        model, inputs, loss = NETWORKS[name]()
    labels = torch.randint(0, 10, (COUNT,))
    if inputs.is_floating_point():
        model.train()
        with torch.no_grad():
            model(inputs)
    return model.eval(), inputs, labels, loss


def brute_force(model, inputs, labels, loss) -> np.ndarray:
    """`N (G . g) - |g|^2` by plain autograd, a sample at a time."""
    rows = []
    for z in range(COUNT):
        one = loss(model, (inputs[z : z + 1], labels[z : z + 1])).sum()
        parts = torch.autograd.grad(one, list(model.parameters()), allow_unused=True)
        rows.append(torch.cat([part.flatten() for part in parts if part is not None]))
    gradients = torch.stack(rows).double()
    return (COUNT * gradients @ gradients.mean(0) - gradients.square().sum(1)).numpy()


@pytest.mark.parametrize("name", NETWORKS)
def test_no_fallback_runs_and_scores_are_exact(name, caplog):
    model, inputs, labels, loss = made(name)
    batches = [(inputs[:4], labels[:4]), (inputs[4:], labels[4:])]
    with caplog.at_level(logging.WARNING):
        step = time_step(Point.of(model, loss), lambda: batches)
    assert not caplog.records
    exact = brute_force(model.double(), inputs.double() if inputs.is_floating_point() else inputs, labels, loss)
    single = COUNT * step.dot[0] - step.squared_norm[0]
    assert np.abs(single - exact).max() < 1e-4 * np.abs(exact).max()

    wide = [(inputs.double() if inputs.is_floating_point() else inputs, labels)]
    point = Point.of(model, loss)
    assert plan_for(point, wide[0]).others == ()
    step = time_step(point, lambda: wide)
    double = COUNT * step.dot[0] - step.squared_norm[0]
    assert np.abs(double - exact).max() < 1e-9 * np.abs(exact).max()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("name", NETWORKS)
def test_another_device_gives_the_same_scores(name):
    model, inputs, labels, loss = made(name)
    here = time_step(Point.of(model, loss), lambda: [(inputs, labels)])
    there = time_step(Point.of(model.to("cuda"), loss), lambda: [(inputs, labels)])
    np.testing.assert_allclose(there.dot, here.dot, rtol=1e-4, atol=1e-4 * np.abs(here.dot).max())
    np.testing.assert_allclose(there.squared_norm, here.squared_norm, rtol=1e-4)
