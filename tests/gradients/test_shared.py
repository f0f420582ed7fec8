"""Weights that several calls share, tensors derived from parameters, and what is kept for the second sweep."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

from moso.gradients import Point, cross_entropy, time_step
from moso.gradients import engine as engine_module
from moso.gradients.trust import knowledge_of

SIZE = 6


class Shared(nn.Module):
    """One square matrix, met in all the ways in which a matrix can be multiplied."""

    def __init__(self, ways: str) -> None:
        super().__init__()
        self.ways = ways
        self.weight = nn.Parameter(torch.randn(SIZE, SIZE, dtype=torch.float64) / 3)
        self.bias = nn.Parameter(torch.randn(SIZE, dtype=torch.float64))

    def forward(self, x):
        for way in self.ways:
            match way:
                case "l":
                    x = F.linear(x, self.weight, self.bias)
                case "t":
                    x = F.linear(x, self.weight.t())
                case "m":
                    x = x @ self.weight
                case "T":
                    x = x @ self.weight.T
                case "a":
                    x = torch.addmm(self.bias, x.flatten(0, -2), self.weight).view_as(x)
                case "n":
                    x = F.linear(x, self.weight / self.weight.norm())
                case "s":
                    x = torch.cat([F.linear(x, self.weight[:2]), x[..., 2:]], -1)
            x = torch.tanh(x)
        return x.mean(1) if x.ndim == 3 else x


def gradients_one_by_one(model, inputs, labels):
    rows = []
    for z in range(len(labels)):
        loss = cross_entropy(model, (inputs[z : z + 1], labels[z : z + 1])).sum()
        parts = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        rows.append(torch.cat([torch.zeros(SIZE) if part is None else part.flatten() for part in parts]))
    return torch.stack(rows).double()


def batches_of(inputs, labels, size):
    return lambda: [(inputs[at : at + size], labels[at : at + size]) for at in range(0, len(labels), size)]


def assert_exact(model, inputs, labels):
    expected = gradients_one_by_one(model, inputs, labels)
    step = time_step(Point.of(model, cross_entropy), batches_of(inputs, labels, 5))
    np.testing.assert_allclose(step.squared_norm[0], expected.square().sum(1), rtol=1e-9)
    np.testing.assert_allclose(step.dot[0], expected @ expected.mean(0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("positions", [(), (1,), (4,)])
@pytest.mark.parametrize("ways", ["ll", "lt", "lm", "lT", "tm", "TT", "la", "ltmTa", "ln", "ls", "lts", "nn"])
def test_a_weight_that_several_calls_share_has_the_sum_of_their_gradients(ways, positions):
    torch.manual_seed(0)
    inputs, labels = torch.randn(12, *positions, SIZE, dtype=torch.float64), torch.arange(12) % SIZE
    assert_exact(Shared(ways), inputs, labels)


@pytest.mark.parametrize("width", [8, 200])
def test_parameters_behind_derived_tensors_are_exact_whether_they_are_few_or_many(width):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(SIZE, width), nn.Tanh(), nn.Linear(width, width), nn.Linear(width, SIZE)).double()
    for number in (0, 2, 3):
        parametrizations.weight_norm(network[number])
    inputs, labels = torch.randn(12, SIZE, dtype=torch.float64), torch.arange(12) % SIZE
    known = knowledge_of(Point.of(network, cross_entropy), (inputs, labels))
    assert bool(known.plan.routes.covered) == (width == 200)  # few parameters are left to vmap
    assert_exact(network, inputs, labels)


@pytest.mark.parametrize(("room", "readings"), [(engine_module.KEPT_CALLS, 1), (0, 2)])
def test_samples_are_read_once_where_everything_can_be_kept(monkeypatch, room, readings):
    monkeypatch.setattr(engine_module, "KEPT_CALLS", room)
    torch.manual_seed(0)
    inputs, labels = torch.randn(12, SIZE, dtype=torch.float64), torch.arange(12) % SIZE
    read = []

    def batches():
        read.append(1)
        return batches_of(inputs, labels, 5)()

    model = Shared("lts")
    step = time_step(Point.of(model, cross_entropy), batches)
    assert len(read) == readings
    expected = gradients_one_by_one(model, inputs, labels)
    np.testing.assert_allclose(step.dot[0], expected @ expected.mean(0), rtol=1e-9, atol=1e-12)
