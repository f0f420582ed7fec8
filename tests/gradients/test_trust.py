"""What is believed, when it is compared, and that wrong numbers do not leave a time step."""

import gc
import logging
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from moso.gradients import Point, cross_entropy, engine, time_step, trust, without_identities
from moso.gradients.fallback import slow_route, warn_once
from moso.gradients.identities import loss_weights
from moso.gradients.losses import Collated
from moso.gradients.watching.owners import told_owners
from refusals import refusal

N, LENGTH = 12, 3


class Tokens(nn.Module):
    """A linear layer over the positions of every sample, whose rows are sample-major."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.inner(x.flatten(0, 1))).view(len(x), LENGTH, 5).mean(1))


def problem(model: nn.Module | None = None):
    torch.manual_seed(0)
    model = (Tokens() if model is None else model).double().eval()
    return model, torch.randn(N, LENGTH, 4, dtype=torch.float64), torch.randint(0, 3, (N,))


def batches_of(inputs, labels, size=4):
    return lambda: [(inputs[i : i + size], labels[i : i + size]) for i in range(0, len(labels), size)]


def truth(model, inputs, labels, loss=cross_entropy):
    rows = []
    for z in range(len(labels)):
        parts = torch.autograd.grad(loss(model, (inputs[z : z + 1], labels[z : z + 1])).sum(), list(model.parameters()))
        rows.append(torch.cat([part.flatten() for part in parts]))
    gradients = torch.stack(rows)
    return gradients.square().sum(1), gradients @ gradients.mean(0)


def assert_right(step, model, inputs, labels, rtol=1e-9, loss=cross_entropy):
    norms, dots = truth(model, inputs, labels, loss)
    np.testing.assert_allclose(step.squared_norm[0], norms, rtol=rtol)
    np.testing.assert_allclose(step.dot[0], dots, rtol=rtol, atol=rtol * float(dots.abs().max()))


@pytest.mark.parametrize("room", [0, 2**30])
def test_a_gradient_given_to_the_wrong_sample_does_not_leave_a_time_step(room, monkeypatch, caplog):
    """Rows are taken for position-major ones, though they are not, and nothing is left to compare."""
    model, inputs, labels = problem()
    monkeypatch.setattr(engine, "KEPT_CALLS", room)
    warn_once.cache_clear()
    point, batches = Point.of(model, cross_entropy), batches_of(inputs, labels)
    time_step(point, batches)
    known = trust.knowledge_of(point, batches()[0])
    assert known.plan.routes.layouts["inner.weight"] == "first"
    swapped = {
        name: "inner" if name.startswith("inner") else layout for name, layout in known.plan.routes.layouts.items()
    }
    known.plan = replace(known.plan, routes=replace(known.plan.routes, layouts=swapped))
    with without_identities():
        wrong = time_step(point, batches)
    assert np.abs(wrong.squared_norm[0] / truth(model, inputs, labels)[0].numpy() - 1).max() > 0.01
    with caplog.at_level(logging.WARNING):
        step = time_step(point, batches)
    assert "do not add up" in caplog.text
    assert_right(step, model, inputs, labels)


def test_what_is_kept_of_the_first_sweep_gives_what_a_second_one_gives(monkeypatch):
    model, inputs, labels = problem()
    point, batches = Point.of(model, cross_entropy), batches_of(inputs, labels)
    found = []
    for room in (0, 2000, 2**30):
        monkeypatch.setattr(engine, "KEPT_CALLS", room)
        first = engine.first_sweep(point, batches, point.checked_groups(()), room=room)
        found.append(len(first.kept))
        assert_right(time_step(point, batches), model, inputs, labels)
    assert found[0] == 0 < found[1] < found[2] == 3


def test_a_network_is_looked_at_once_and_not_at_every_checkpoint(monkeypatch):
    model, inputs, labels = problem()
    looked = []
    find = trust.find_routes
    monkeypatch.setattr(trust, "find_routes", lambda *given: looked.append(1) or find(*given))
    compared = []
    wrong = trust.find_wrong
    monkeypatch.setattr(trust, "find_wrong", lambda *given: compared.append(1) or wrong(*given))
    for number in range(3):
        state = {name: value + 0.1 * number for name, value in model.state_dict().items()}
        time_step(Point.of(model, cross_entropy, state), batches_of(inputs, labels))
    assert len(looked) == len(compared) == 1


def test_a_form_is_compared_where_its_parameter_has_a_gradient_and_not_before():
    """The head has no gradient in the first batch, whose samples are all masked."""
    model, inputs, labels = problem()

    def masked(model, batch):
        return torch.where(batch[1] < 0, 0.0, 1.0) * F.cross_entropy(
            model(batch[0]), batch[1].clamp(min=0), reduction="none"
        )

    labels[:4] = -1
    point, batches = Point.of(model, masked), batches_of(inputs, labels)
    known = trust.knowledge_of(point, batches()[0])
    trust.trusted_plan(point, known, batches()[0])
    assert not known.seen
    trust.trusted_plan(point, known, batches()[1])
    assert set(known.seen) == set(point.trained)


def test_a_network_that_is_random_in_evaluation_mode_is_refused():
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(12, 3)

        def forward(self, x):
            return self.inner(x.flatten(1) * (1 + 0.3 * torch.rand_like(x.flatten(1))))

    model, inputs, labels = problem(Noisy())
    with refusal("samples-mixed"):
        time_step(Point.of(model, cross_entropy), batches_of(inputs, labels))


def test_half_precision_inside_a_loss_is_no_reason_to_refuse():
    model, inputs, labels = problem()
    model, inputs = model.float(), inputs.float()

    def mixed(model, batch):
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(batch[0])
        return F.cross_entropy(logits.float(), batch[1], reduction="none")

    step = time_step(Point.of(model, mixed), batches_of(inputs, labels))
    norms, _ = truth(model.double(), inputs.double(), labels)
    np.testing.assert_allclose(step.squared_norm[0], norms, rtol=0.1)


class Channels(nn.Module):
    """Batch-norm whose output gradient has its channels last in memory, before a parameter without a closed form."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner = nn.BatchNorm2d(4), nn.Linear(4, 5)
        self.centres = nn.Parameter(torch.randn(3, 5))

    def forward(self, x):
        x = F.silu(self.norm(x)).flatten(2).transpose(1, 2)
        return torch.cdist(self.inner(x).mean(1), self.centres)


def test_one_sample_at_a_time_gives_what_central_differences_give():
    """PyTorch takes a wrong gradient of batch-norm for a batch of one whose channels are last in memory."""
    torch.manual_seed(0)
    model = Channels().double().eval()
    with torch.no_grad():
        for value in [model.norm.weight, model.norm.bias, model.norm.running_mean]:
            value.normal_()
    inputs, labels = torch.randn(4, 4, 3, 3, dtype=torch.float64), torch.randint(0, 3, (4,))
    point = Point.of(model, cross_entropy)
    batch = (inputs, labels)
    gradients = torch.cat([own["norm.bias"] for own in slow_route(point, batch)(point, batch)])
    step, e = torch.randn(4, dtype=torch.float64), 1e-6
    ends = [
        point.losses({**point.trained, "norm.bias": point.trained["norm.bias"] + sign * e * step}, (inputs, labels))
        for sign in (1, -1)
    ]
    torch.testing.assert_close(gradients @ step, ((ends[0] - ends[1]) / (2 * e)).detach(), rtol=1e-6, atol=1e-8)


def test_weights_of_losses_go_in_and_out_without_rounding():
    weights = loss_weights(40, 3, torch.zeros(1))
    assert torch.equal(torch.log2(weights.abs()), torch.log2(weights.abs()).round())
    assert len(set(weights[:16].tolist())) == 16
    values = torch.randn(40)
    assert torch.equal(values * weights / weights, values)
    assert not torch.equal(weights, loss_weights(40, 4, torch.zeros(1)))


def test_a_batch_may_tell_whose_rows_it_has():
    owners = torch.tensor([0, 0, 1, 2, 2])
    batch = Collated({"nodes": torch.randn(5, 2), "owners": owners, "counts": torch.tensor([2, 1, 2])}, 3, None)
    [found] = told_owners(batch)
    assert found is owners
    assert told_owners(Collated({"rows": torch.tensor([0, 2, 1, 2])}, 3, None)) == []
    assert told_owners({"rows": owners}) == []


def test_the_sample_that_is_not_finite_is_the_one_that_is_named():
    model, inputs, labels = problem()
    inputs[5, 0, 0] = torch.nan
    with refusal("values-not-finite", 5):
        time_step(Point.of(model, cross_entropy), batches_of(inputs, labels))


class Distances(nn.Module):
    """A parameter without a closed form."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.centres = nn.Linear(12, 5), nn.Parameter(torch.randn(3, 5))

    def forward(self, x):
        return torch.cdist(self.inner(x.flatten(1)), self.centres)


def test_what_goes_the_slow_way_goes_it_at_every_checkpoint(caplog):
    model, inputs, labels = problem(Distances())
    warn_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            step = time_step(Point.of(model, cross_entropy, model.state_dict()), batches_of(inputs, labels))
            assert_right(step, model, inputs, labels)
            with torch.no_grad():
                for value in model.parameters():
                    value.add_(0.3 * torch.randn_like(value))
    assert " has no closed form here" in caplog.text
    assert "do not add up" not in caplog.text


def test_what_is_known_of_a_network_does_not_keep_it_alive():
    def scored():
        model, inputs, labels = problem(Distances())
        for loss in (cross_entropy, lambda _, batch: cross_entropy(model, batch)):
            time_step(Point.of(model, loss), batches_of(inputs, labels))
        return weakref.ref(model)

    own = scored()
    gc.collect()
    assert own() is None
