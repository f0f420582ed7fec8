"""Laws of the gradient engine."""

import logging
import subprocess
import sys
from collections import UserDict, namedtuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from moso.gradients import (
    Point,
    cross_entropy,
    directional_derivatives,
    fallback,
    mean_gradient,
    squared_norms,
    time_step,
    trust,
)
from moso.gradients.directional import backward_derivative
from moso.gradients.fitting import Fitting, batch_size_for
from moso.gradients.layers import operation as layer_parts
from moso.gradients.trust import knowledge_of, plan_for
from refusals import refusal


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
    dot = directional_derivatives(point, batches, direction)
    e = 1e-5
    ends = []
    for sign in (1, -1):
        moved = {name: point.trained[name] + sign * e * value for name, value in direction.items()}
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
    whole = time_step(point, batches_of(inputs, labels, 20))
    monkeypatch.setattr(fallback, "CHUNK_BYTES", 1)  # one sample's gradient at a time
    monkeypatch.setattr(layer_parts, "AT_ONCE", 0)
    parts = time_step(point, batches_of(inputs, labels, size))
    np.testing.assert_allclose(whole.dot, parts.dot, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(whole.squared_norm, parts.squared_norm, rtol=1e-9)


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
    time_step(point, batches)
    assert [module.training for module in model.modules()] == modes
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    for name, value in model.named_parameters():
        assert torch.equal(value.grad, gradients[name])


class Untraceable(nn.Module):
    """Neither `vmap` nor forward mode can take a branch on a value."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3).double()
        self.scale = nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, inputs):
        rows = self.linear(inputs.flatten(1))
        return torch.stack([row * self.scale if row.detach().numpy().sum() > 0 else row for row in rows])


def test_what_has_no_closed_form_is_done_one_by_one_and_announced_once(caplog):
    _, inputs, labels = problem()
    model = Untraceable()
    point = Point.of(model, cross_entropy)
    batches = batches_of(inputs, labels, 5)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            step = time_step(point, batches)
            along = directional_derivatives(point, batches, step.mean_gradient)
    assert sum("one sample at a time" in record.message for record in caplog.records) == 1
    assert sum("no forward mode here" in record.message for record in caplog.records) == 1
    np.testing.assert_allclose(along, step.dot, rtol=1e-9, atol=1e-12)
    gradients = []
    for z in range(len(labels)):
        loss = cross_entropy(model, (inputs[z : z + 1], labels[z : z + 1])).sum()
        parts = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        gradients.append(torch.cat([torch.zeros(3).double() if part is None else part.flatten() for part in parts]))
    stacked = torch.stack(gradients).detach()
    np.testing.assert_allclose(step.squared_norm[0], stacked.square().sum(1), rtol=1e-9)
    np.testing.assert_allclose(step.dot[0], stacked @ stacked.mean(0), rtol=1e-9, atol=1e-12)


def test_a_network_without_any_closed_form_goes_both_slow_ways():
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(16, 3, dtype=torch.float64))

        def forward(self, inputs):
            return torch.cdist(inputs.flatten(1), self.weight.T)

    torch.manual_seed(0)
    _, inputs, labels = problem()
    point = Point.of(Bare(), cross_entropy)
    batches = batches_of(inputs, labels, 7)
    step = time_step(point, batches)
    known = knowledge_of(point, (inputs, labels))
    assert known.plan.routes.covered == []
    dots = backward_derivative(point, known, (inputs, labels), step.mean_gradient)
    np.testing.assert_allclose(dots, step.dot[0], rtol=1e-9, atol=1e-12)


def test_a_loss_that_mixes_samples_is_refused():
    model, inputs, labels = problem()

    def centred(model, batch):
        outputs = model(batch[0])
        return F.cross_entropy(outputs - outputs.mean(0), batch[1], reduction="none")

    with refusal("samples-mixed"):
        time_step(Point.of(model, centred), batches_of(inputs, labels, 5))


def test_groups_add_up_to_the_whole_and_frozen_parameters_do_not_count():
    model, inputs, labels = problem()
    point = Point.of(model, cross_entropy)
    batches = batches_of(inputs, labels, 5)
    names = list(point.trained)
    whole = time_step(point, batches)
    split = time_step(point, batches, (tuple(names[:3]), tuple(names[3:])))
    np.testing.assert_allclose(split.dot.sum(axis=0), whole.dot[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(split.squared_norm.sum(axis=0), whole.squared_norm[0], rtol=1e-10)
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    frozen = Point.of(model, cross_entropy)
    assert not any(name.startswith("0.") for name in frozen.trained)
    with refusal("checkpoint-mismatch"):
        time_step(frozen, batches, (("1.weight",),))


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
    norms = squared_norms(point, batches_of(inputs, labels, 4))
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
    assert float(point.fixed["scale"]) == 2.0


class Encoded(UserDict):
    """A batch with attributes, as Hugging Face has them."""

    def __getattr__(self, name):
        if name == "data":
            raise AttributeError(name)
        return self.data[name]


def test_batches_of_any_structure():
    model = nn.Linear(4, 1).double()
    inputs, targets = torch.randn(8, 4, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    Pair = namedtuple("Pair", ["features", "target"])

    def squared_error(model, batch):
        if isinstance(batch, Encoded):
            features, target = batch.x, batch.y
        else:
            features, target = (batch["x"], batch["y"]) if isinstance(batch, dict) else batch
        return (model(features).squeeze(1) - target).square()

    results = []
    for batch in ({"x": inputs, "y": targets}, [inputs, targets], Pair(inputs, targets), Encoded(x=inputs, y=targets)):
        results.append(time_step(Point.of(model, squared_error), lambda batch=batch: [batch]))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].dot, other.dot)
        np.testing.assert_array_equal(results[0].squared_norm, other.squared_norm)


def test_a_loss_that_is_no_vector_is_refused():
    model, inputs, labels = problem()
    point = Point.of(model, lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]))
    with refusal("loss-invalid"):
        mean_gradient(point, batches_of(inputs, labels, 5))


def test_everything_frozen_is_refused():
    model, _, _ = problem()
    with refusal("model-unsuitable"):
        Point.of(model.requires_grad_(False), cross_entropy)


def test_a_batch_that_does_not_fit_is_taken_in_pieces(caplog):
    model, inputs, labels = problem()

    def hungry(model, batch):
        if len(batch[1]) > 6:
            raise torch.OutOfMemoryError("as a device would say")
        return cross_entropy(model, batch)

    with caplog.at_level(logging.WARNING):
        found = time_step(Point.of(model, hungry), batches_of(inputs, labels, 20))
    expected = time_step(Point.of(model, cross_entropy), batches_of(inputs, labels, 20))
    np.testing.assert_allclose(found.dot, expected.dot, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.squared_norm, expected.squared_norm, rtol=1e-9)
    assert "going on with 5" in caplog.text


def test_one_sample_that_does_not_fit_is_an_error_that_says_so():
    _, inputs, labels = problem()

    def full(batch):
        raise torch.OutOfMemoryError

    with refusal("out-of-memory"):
        list(Fitting().pieces((inputs, labels), full))


def test_other_errors_are_not_taken_for_missing_memory():
    def broken(batch):
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        list(Fitting().pieces((torch.zeros(4, 1),), broken))


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space as Linux does")
def test_memory_that_the_system_refuses_is_not_the_end():
    """A real refusal: the process may have 200 MB more, the whole batch would keep more."""
    code = """
import resource, torch
from torch import nn
from moso.gradients import Point, cross_entropy, squared_norms
torch.set_num_threads(1)
first, second = nn.Conv2d(1, 64, 3, padding=1), nn.Conv2d(64, 4, 3, padding=1)
model = nn.Sequential(first, nn.ReLU(), second, nn.Flatten(), nn.Linear(4096, 2))
inputs, labels = torch.randn(512, 1, 32, 32), torch.randint(0, 2, (512,))
point = Point.of(model, cross_entropy)
some = squared_norms(point, lambda: [(inputs[:16], labels[:16])])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 200 * 2**20, -1))
norms = squared_norms(point, lambda: [(inputs, labels)])
print(norms.shape, abs(norms[:, :16] - some).max() <= 1e-5 * some.max())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[0] == "(1, 512) True", done.stderr
    assert "memory ran out with 512 samples" in done.stderr


def test_the_batch_size_follows_from_what_a_sample_keeps():
    def network(width):
        return nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))

    sizes = []
    some = torch.zeros(2, 1, 64, 64), torch.tensor([0, 1])
    for width in (1, 64, 256):
        model = network(width)
        model(some[0])
        sizes.append(batch_size_for(Point.of(model, cross_entropy), some))
    # A sample keeps its image and `width` images after the convolution, which its ReLU shares with the last layer.
    assert sizes[0] == 1024
    assert sizes[1] == 128
    assert sizes[2] == 32


def test_samples_at_a_kink_do_not_cost_a_network_its_closed_forms(monkeypatch):
    """Samples alone look wrong, as rounding at a ReLU makes them; among their neighbours they do not."""
    model, inputs, labels = problem()
    alone = []

    def kinked(point, one):
        loss, gradients = fallback.gradients_of_one(point, one)
        alone.append(one)
        return loss, {name: 1.1 * gradient for name, gradient in gradients.items()}

    monkeypatch.setattr(trust, "gradients_of_one", kinked)
    plan = plan_for(Point.of(model, cross_entropy), (inputs, labels))
    assert alone
    assert plan.others == ()
