"""Products with single samples' gradients inside a training step, against autograd."""

import copy

import pytest
import torch
import torch.nn.functional as F
from test_layers import CASES, SLOW, made
from torch import nn

from moso.gradients import cross_entropy
from moso.gradients.estimates.training_step import TrainingStepProducts
from refusals import refusal

MIXING = {name for name in CASES if "batch-norm" in name or name in ("frames", "a subclass of its own")}


def random_direction(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: torch.randn_like(value) for name, value in model.named_parameters() if value.requires_grad}


def products(model, batch, direction, loss=cross_entropy, parameters=None):
    live = TrainingStepProducts(model, loss, batch, parameters)
    live.losses(batch, direction).mean().backward()
    return live.products()


@pytest.mark.parametrize("name", sorted(set(CASES) - SLOW - MIXING))
def test_where_samples_do_not_mix_it_is_the_products_with_their_gradients(name):
    model, inputs, labels = made(name)
    model.train()
    direction = random_direction(model)
    found = products(model, (inputs, labels), direction)
    names = list(direction)
    for z in range(len(labels)):
        loss = cross_entropy(model, (inputs[z : z + 1], labels[z : z + 1])).sum()
        parts = torch.autograd.grad(loss, [value for value in model.parameters() if value.requires_grad])
        expected = sum(float((direction[n] * part).sum()) for n, part in zip(names, parts, strict=True))
        assert float(found[z]) == pytest.approx(expected, rel=1e-8, abs=1e-10)


class Normalised(nn.Module):
    """Batch-norm over images and over rows."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(2, 4, 3, padding=1, stride=2), nn.BatchNorm2d(4)
        self.inner, self.second = nn.Linear(4, 5), nn.BatchNorm1d(5)
        self.classifier = nn.Linear(5, 3)

    def forward(self, x):
        x = torch.tanh(self.norm(self.convolution(x))).mean((2, 3))
        return self.classifier(torch.tanh(self.second(self.inner(x))))


def with_own_copies(x: torch.Tensor, w: dict[str, torch.Tensor]) -> torch.Tensor:
    """The same network where every sample has parameters of its own, `[samples, *shape]`."""
    rows = [
        F.conv2d(x[z : z + 1], w["convolution.weight"][z], w["convolution.bias"][z], stride=2, padding=1)
        for z in range(len(x))
    ]
    x = F.batch_norm(torch.cat(rows), None, None, training=True)
    x = torch.tanh(x * w["norm.weight"][:, :, None, None] + w["norm.bias"][:, :, None, None]).mean((2, 3))
    x = torch.einsum("noi,ni->no", w["inner.weight"], x) + w["inner.bias"]
    x = torch.tanh(F.batch_norm(x, None, None, training=True) * w["second.weight"] + w["second.bias"])
    return torch.einsum("noi,ni->no", w["classifier.weight"], x) + w["classifier.bias"]


def test_under_batch_norm_it_is_the_derivative_by_parameters_that_only_the_sample_uses():
    torch.manual_seed(0)
    model = Normalised().double().train()
    inputs, labels = torch.randn(7, 2, 5, 5, dtype=torch.float64), torch.randint(0, 3, (7,))
    direction = random_direction(model)
    copies = {
        name: value.detach().expand(7, *value.shape).clone().requires_grad_()
        for name, value in model.named_parameters()
    }
    loss = F.cross_entropy(with_own_copies(inputs, copies), labels, reduction="sum")
    gradients = torch.autograd.grad(loss, list(copies.values()))
    expected = sum((own.flatten(1) @ direction[name].flatten()) for name, own in zip(copies, gradients, strict=True))
    found = products(model, (inputs, labels), direction)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["batch-norm", "batch-norm 1d", "frames", "multi-head attention", "raw parameter"])
def test_the_training_step_is_what_it_would_be_without(name):
    """Losses, gradients and running statistics, to the bit."""
    model, inputs, labels = made(name)
    watched, plain = copy.deepcopy(model).train(), copy.deepcopy(model).train()
    live = TrainingStepProducts(watched, cross_entropy, (inputs, labels))
    losses = live.losses((inputs, labels), random_direction(watched))
    losses.mean().backward()
    expected = cross_entropy(plain, (inputs, labels))
    expected.mean().backward()
    # Attention is written out and parameters are given to each sample: the same up to rounding.
    same = torch.equal if name in MIXING else torch.allclose
    assert same(losses, expected)
    for one, other in zip(watched.parameters(), plain.parameters(), strict=True):
        assert same(one.grad, other.grad)
    for one, other in zip(watched.buffers(), plain.buffers(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", sorted(SLOW))
def test_a_parameter_that_cannot_be_seen_is_refused_by_name(name):
    model, inputs, labels = made(name)
    with refusal("model-unsuitable", "layers.0.attention.in_proj_weight", "estimator"):
        TrainingStepProducts(model.train(), cross_entropy, (inputs, labels))


class OtherwiseInTraining(nn.Module):
    """Its weight takes a second way while it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 3)

    def forward(self, x):
        return self.inner(x) + (torch.cdist(x, self.inner.weight) if self.training else 0)


class DropsAttention(nn.Module):
    """PyTorch's attention with dropout, whose parameters are out of sight while it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)
        self.classifier = nn.Linear(4, 3)

    def forward(self, x):
        x = x.view(len(x), 2, 4)
        return self.classifier(self.attention(x, x, x, need_weights=False)[0].mean(1))


@pytest.mark.parametrize(
    ("build", "told"),
    [(OtherwiseInTraining, ("model-unsuitable",)), (DropsAttention, ("model-unsuitable", "attention.in_proj_weight"))],
)
def test_what_only_training_does_unseen_is_found_out(build, told):
    torch.manual_seed(0)
    model = build().train()
    batch = torch.randn(6, 8), torch.randint(0, 3, (6,))
    with refusal(*told):
        products(model, batch, random_direction(model))


def test_some_parameters_alone_and_a_direction_that_leaves_some_out():
    model, inputs, labels = made("linear")
    direction = random_direction(model)
    whole = products(model, (inputs, labels), direction)
    model.zero_grad()
    head = products(model, (inputs, labels), direction, parameters=lambda name: name.startswith("2."))
    model.zero_grad()
    rest = products(model, (inputs, labels), {name: v for name, v in direction.items() if name.startswith("0.")})
    torch.testing.assert_close(head + rest, whole)


def test_under_autocast_it_is_right_up_to_rounding():
    torch.manual_seed(0)
    model = Normalised().train()
    batch = torch.randn(16, 2, 8, 8), torch.randint(0, 3, (16,))
    direction = random_direction(model)
    exact = products(copy.deepcopy(model), batch, direction)
    live = TrainingStepProducts(model, cross_entropy, batch)
    with torch.autocast("cpu", torch.bfloat16):
        mean = live.losses(batch, direction).mean()
    mean.backward()
    assert float((live.products() - exact).abs().max()) < 0.05 * float(exact.abs().max())
