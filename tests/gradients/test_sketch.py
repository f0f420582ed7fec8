"""Sketches against gradients taken one sample at a time and projected afterwards."""

import numpy as np
import pytest
import torch
from test_layers import CASES, made
from torch import nn

from moso.gradients import Point, cross_entropy, sketched_time_step, sketches, time_step
from moso.gradients.estimates.projection import Projection, shares
from moso.gradients.estimates.sketch import projections_of
from refusals import refusal


def gradients_of(model, inputs, labels) -> list[dict[str, torch.Tensor]]:
    trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
    found = []
    for z in range(len(labels)):
        loss = cross_entropy(model, (inputs[z : z + 1], labels[z : z + 1])).sum()
        parts = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
        found.append({n: torch.zeros_like(v) if g is None else g for (n, v), g in zip(trained.items(), parts)})  # noqa: B905
    return found


def flat(gradients: list[dict[str, torch.Tensor]]) -> torch.Tensor:
    return torch.stack([torch.cat([part.flatten() for part in own.values()]) for own in gradients])


@pytest.mark.parametrize("name", CASES)
def test_a_sketch_is_the_projected_gradient(name):
    model, inputs, labels = made(name)
    point = Point.of(model, cross_entropy)
    batches = lambda: [(inputs[:4], labels[:4]), (inputs[4:], labels[4:])]  # noqa: E731
    found = sketches(point, batches, numbers=60, seed=3)
    truth = gradients_of(model, inputs, labels)
    projections = projections_of(point, 60, 3)
    expected = torch.cat(
        [one.of_gradients(torch.stack([own[part] for own in truth])) for part, one in projections.items()], 1
    )
    assert found.shape == (len(labels), sum(one.size for one in projections.values()))
    assert found.shape[1] <= max(60, len(point.trained))
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6 * float(expected.abs().max()))


@pytest.mark.parametrize("shape", [(12, 5), (6, 4, 3, 3), (40,), (9, 2, 5), (3, 30)])
def test_products_of_projections_are_right_on_average_and_better_with_more_numbers(shape):
    torch.manual_seed(0)
    one, other = torch.randn(2, *shape, dtype=torch.float64)
    other += one
    errors = []
    for numbers in (4, 20):
        products = []
        for seed in range(2000):
            first, second = Projection.draw(one, numbers, seed, "a").of_gradients(torch.stack([one, other]))
            products.append(float(first @ second))
        spread = np.std(products)
        assert abs(np.mean(products) - float((one * other).sum())) < 5 * spread / 2000**0.5 + 1e-9
        errors.append(spread)
    assert errors[1] < 0.7 * errors[0]


def test_terms_from_sketches_are_right_on_average():
    """Both terms, over networks' layers together: the mean over many seeds against brute force."""
    model, inputs, labels = made("conv2d, few positions")
    point, stacked = Point.of(model, cross_entropy), flat(gradients_of(model, inputs, labels))
    N = len(labels)
    others = (stacked.sum(0) - stacked) / (N - 1)
    truth = (others * stacked).sum(1).numpy(), stacked.square().sum(1).numpy()
    draws = [[], []]
    for seed in range(150):
        step = sketched_time_step(point, lambda: [(inputs, labels)], numbers=120, seed=seed)
        draws[0].append((N * step.dot[0] - step.squared_norm[0]) / (N - 1))
        draws[1].append(step.squared_norm[0])
    for found, expected in zip(draws, truth, strict=True):
        error = np.std(found, axis=0) / len(found) ** 0.5
        assert (np.abs(np.mean(found, axis=0) - expected) < 5 * error).all()
        assert (error < 0.1 * np.abs(truth[1])).all()


def test_with_room_for_everything_sketches_are_exact():
    model, inputs, labels = made("batch-norm")
    point = Point.of(model, cross_entropy)
    batches = lambda: [(inputs[:4], labels[:4]), (inputs[4:], labels[4:])]  # noqa: E731
    names = list(point.trained)
    groups = (tuple(names[:2]), tuple(names[2:]))
    exact = time_step(point, batches, groups)
    found = sketched_time_step(point, batches, groups, numbers=10_000)
    np.testing.assert_allclose(found.dot, exact.dot, rtol=1e-5, atol=1e-6 * np.abs(exact.dot).max())
    np.testing.assert_allclose(found.squared_norm, exact.squared_norm, rtol=1e-5)


def test_the_same_address_gives_the_same_sketch_whatever_the_batches():
    model, inputs, labels = made("conv2d")
    point = Point.of(model, cross_entropy)
    whole = sketches(point, lambda: [(inputs, labels)], numbers=40, seed=1)
    parts = sketches(point, lambda: [(inputs[i : i + 1], labels[i : i + 1]) for i in range(6)], numbers=40, seed=1)
    torch.testing.assert_close(whole, parts, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(whole, sketches(point, lambda: [(inputs, labels)], numbers=40, seed=2))


def test_shares_add_up_and_small_parameters_stay_whole():
    given = shares({"bias": 5, "weight": 1000, "norm": 30}, 100)
    assert given == {"bias": 5, "norm": 30, "weight": 65}
    assert sum(shares({str(n): 100 for n in range(7)}, 10).values()) == 10


def test_too_few_numbers_are_refused():
    model, inputs, labels = made("linear")
    with refusal("setting-invalid", 3):
        sketches(Point.of(model, cross_entropy), lambda: [(inputs, labels)], numbers=2)
    with refusal("data-empty"):
        sketches(Point.of(model, cross_entropy), lambda: [], numbers=20)


def test_no_gradient_by_a_large_layer_is_ever_formed():
    """A linear and a convolutional layer whose gradients for one batch would be far larger than all that is held."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 64), nn.Linear(64, 3))
    inputs, labels = torch.randn(64, 32, 4, 4), torch.randint(0, 3, (64,))
    largest = 0

    class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple | list) else [out]:
                if isinstance(tensor, torch.Tensor):
                    largest = max(largest, tensor.untyped_storage().nbytes())
            return out

    from moso.gradients.trust import plan_for

    point = Point.of(model.eval(), cross_entropy)
    plan_for(point, (inputs, labels))  # what is compared with autograd is compared now
    with Sizes():
        sketches(point, lambda: [(inputs, labels)], numbers=600)
    formed = 4 * 64 * 64 * 256  # bytes of gradients by the first linear layer alone
    assert largest < formed / 10
