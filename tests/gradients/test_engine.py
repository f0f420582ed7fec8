"""Laws of the gradient engine."""

import logging
from collections import namedtuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from moso.errors import MosoError
from moso.gradients import Point, cross_entropy, engine, mean_gradient, sample_terms


def problem(count: int = 20):
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 6), nn.Linear(6, 3)
    ).double()
    inputs, labels = torch.randn(count, 1, 4, 4, dtype=torch.float64), torch.randint(0, 3, (count,))
    model(inputs)
    return model.eval(), inputs, labels


def batches_of(inputs, labels, size):
    return lambda: [(inputs[i : i + size], labels[i : i + size]) for i in range(0, len(labels), size)]


def test_directional_derivative_equals_central_difference():
    model, inputs, labels = problem()
    point = Point.of(model, cross_entropy)
    batches = batches_of(inputs, labels, 6)
    direction = mean_gradient(point, batches)
    dot, _ = sample_terms(point, batches, direction)
    e = 1e-5
    ends = []
    for sign in (1, -1):
        moved = {
            f"model.{name}": point.trained[f"model.{name}"] + sign * e * value for name, value in direction.items()
        }
        ends.append(point.losses(moved, (inputs, labels)))
    expected = ((ends[0] - ends[1]) / (2 * e)).detach().numpy()
    np.testing.assert_allclose(dot[0], expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())


def test_mean_gradient_is_the_gradient_of_the_mean_loss():
    model, inputs, labels = problem()
    direction = mean_gradient(Point.of(model, cross_entropy), batches_of(inputs, labels, 7))
    F.cross_entropy(model(inputs), labels).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(direction[name], parameter.grad)


@pytest.mark.parametrize("size", [1, 3, 20])
def test_terms_do_not_depend_on_batch_size_or_chunk(size, monkeypatch):
    model, inputs, labels = problem()
    point = Point.of(model, cross_entropy)
    direction = mean_gradient(point, batches_of(inputs, labels, 20))
    whole = sample_terms(point, batches_of(inputs, labels, 20), direction)
    monkeypatch.setattr(engine, "CHUNK_BYTES", 1)  # one sample's gradient at a time
    parts = sample_terms(point, batches_of(inputs, labels, size), direction)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_scoring_leaves_the_model_as_it_was():
    model, inputs, labels = problem()
    model.train()
    model[1].eval()  # a mode of its own must survive
    F.cross_entropy(model(inputs), labels).backward()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gradients = {name: value.grad.clone() for name, value in model.named_parameters()}
    modes = [module.training for module in model.modules()]
    point = Point.of(model, cross_entropy, {name: value + 1 for name, value in before.items()})
    batches = batches_of(inputs, labels, 5)
    sample_terms(point, batches, mean_gradient(point, batches))
    assert [module.training for module in model.modules()] == modes
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    for name, value in model.named_parameters():
        assert torch.equal(value.grad, gradients[name])


class Untraceable(nn.Module):
    """`vmap` cannot take a branch on a value."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3).double()

    def forward(self, inputs):
        outputs = self.linear(inputs.flatten(1))
        return outputs * 2 if outputs.sum().item() > 0 else outputs


def test_what_vmap_cannot_take_is_done_one_by_one_and_announced_once(caplog):
    _, inputs, labels = problem()
    model = Untraceable()
    point = Point.of(model, cross_entropy)
    batches = batches_of(inputs, labels, 5)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            _, norms = sample_terms(point, batches, mean_gradient(point, batches))
    assert sum("one sample at a time" in record.message for record in caplog.records) == 1
    for z in range(len(labels)):
        loss = cross_entropy(model, (inputs[z : z + 1], labels[z : z + 1])).sum()
        expected = sum(part.square().sum() for part in torch.autograd.grad(loss, list(model.parameters())))
        assert norms[0, z] == pytest.approx(float(expected), rel=1e-10)


def test_groups_add_up_to_the_whole_and_frozen_parameters_do_not_count():
    model, inputs, labels = problem()
    point = Point.of(model, cross_entropy)
    batches = batches_of(inputs, labels, 5)
    direction = mean_gradient(point, batches)
    names = list(direction)
    whole = sample_terms(point, batches, direction)
    split = sample_terms(point, batches, direction, (tuple(names[:3]), tuple(names[3:])))
    np.testing.assert_allclose(split[0].sum(axis=0), whole[0][0], rtol=1e-10)
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    frozen = Point.of(model, cross_entropy)
    assert not any(name.startswith("model.0.") for name in frozen.trained)
    with pytest.raises(MosoError, match="in no optimiser group"):
        sample_terms(frozen, batches, mean_gradient(frozen, batches), (("1.weight",),))


def test_tied_weights_are_counted_once_with_both_uses():
    torch.manual_seed(0)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(5, 5).double()
            self.second = nn.Linear(5, 5).double()
            self.second.weight = self.first.weight

        def forward(self, inputs):
            return self.second(torch.tanh(self.first(inputs)))

    model = Tied()
    inputs, labels = torch.randn(6, 5, dtype=torch.float64), torch.randint(0, 5, (6,))
    point = Point.of(model, cross_entropy, model.state_dict())
    _, norms = sample_terms(point, batches_of(inputs, labels, 4), mean_gradient(point, batches_of(inputs, labels, 4)))
    for z in range(6):
        loss = cross_entropy(model, (inputs[z : z + 1], labels[z : z + 1])).sum()
        expected = sum(part.square().sum() for part in torch.autograd.grad(loss, list(model.parameters())))
        assert norms[0, z] == pytest.approx(float(expected), rel=1e-10)


def test_buffers_that_are_not_saved_are_the_networks_own():
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2).double()
            self.register_buffer("scale", torch.full((1,), 2.0, dtype=torch.float64), persistent=False)

        def forward(self, inputs):
            return self.linear(inputs) * self.scale

    model = Scaled()
    assert "scale" not in model.state_dict()
    point = Point.of(model, cross_entropy, model.state_dict())
    assert float(point.fixed["model.scale"]) == 2.0


def test_batches_of_any_structure():
    model = nn.Linear(4, 1).double()
    inputs, targets = torch.randn(8, 4, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    Pair = namedtuple("Pair", ["features", "target"])

    def squared_error(model, batch):
        features, target = (batch["x"], batch["y"]) if isinstance(batch, dict) else batch
        return (model(features).squeeze(1) - target).square()

    results = []
    for batch in ({"x": inputs, "y": targets}, [inputs, targets], Pair(inputs, targets)):
        point = Point.of(model, squared_error)
        results.append(
            sample_terms(point, lambda batch=batch: [batch], mean_gradient(point, lambda batch=batch: [batch]))
        )
    for other in results[1:]:
        np.testing.assert_array_equal(results[0][0], other[0])


def test_a_loss_that_is_no_vector_is_refused():
    model, inputs, labels = problem()
    point = Point.of(model, lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]))
    with pytest.raises(MosoError, match="one number a sample"):
        mean_gradient(point, batches_of(inputs, labels, 5))


def test_everything_frozen_is_refused():
    model, _, _ = problem()
    with pytest.raises(MosoError, match="no trainable parameter"):
        Point.of(model.requires_grad_(False), cross_entropy)
