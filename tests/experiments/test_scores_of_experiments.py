"""Scores that only experiments ask for, against slower restatements."""

import numpy as np
import pytest
import torch
from torch import nn

from moso.data.views import as_view
from moso.evidence import TrajectoryPoint, step_terms
from moso.experiments.derived import fewer_steps
from moso.experiments.networks import seresnet8
from moso.experiments.robust import robust_terms, trimmed_mean


@pytest.fixture
def problem():
    draw = np.random.default_rng(0)
    inputs, labels = draw.normal(size=(30, 4)).astype(np.float32), draw.integers(3, size=30)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    return model, TrajectoryPoint(7, (0.1,), memory=model.state_dict()), as_view((inputs, labels)), inputs, labels


def gradients(model, inputs, labels) -> torch.Tensor:
    rows = []
    for one, label in zip(torch.from_numpy(inputs), labels, strict=True):
        loss = nn.functional.cross_entropy(model(one[None]), torch.tensor([int(label)]))
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))]))
    return torch.stack(rows)


def test_one_sample_a_block_is_the_trimmed_mean_of_all_gradients(problem):
    model, point, view, inputs, labels = problem
    everything = gradients(model, inputs, labels)
    expected = everything @ trimmed_mean(everything, 0.2)
    found = robust_terms(model, point, view, np.arange(30), seed=0, blocks=30)
    np.testing.assert_allclose(found.dot[0], expected.numpy(), rtol=1e-4, atol=1e-6)
    assert not found.own_risk


def test_nothing_trimmed_in_equal_blocks_is_the_mean(problem):
    model, point, view, *_ = problem
    plain = step_terms(model, point, view, np.arange(30))
    found = robust_terms(model, point, view, np.arange(30), seed=0, blocks=5, trimmed=0.0)
    np.testing.assert_allclose(found.dot, plain.dot, rtol=1e-4, atol=1e-6)


def test_a_trimmed_mean_is_not_pulled_by_outliers():
    values = torch.zeros(10, 2)
    values[0] = 1e9
    assert trimmed_mean(values, 0.2).abs().max() == 0
    torch.testing.assert_close(trimmed_mean(torch.arange(10.0)[:, None], 0.0), torch.tensor([4.5]))


@pytest.mark.parametrize("count", [1, 2, 5, 10])
def test_fewer_steps_are_sampled_as_so_many_would_be(count):
    drawn = [fewer_steps(10, count, seed, stratified=True) for seed in range(200)]
    # One of each stretch, and every recorded step as often as any other.
    assert all(np.array_equal(np.array(one) * count // 10, np.arange(count)) for one in drawn)
    often = np.bincount(np.concatenate(drawn), minlength=10)
    assert abs(often - 200 * count / 10).max() <= 5 * np.sqrt(200 * count / 10)
    uniform = fewer_steps(10, count, 3, stratified=False)
    assert len(set(uniform)) == count
    assert uniform == fewer_steps(10, count, 3, stratified=False) == sorted(uniform)


def test_the_unseen_network_really_has_squeeze_and_excitation():
    torch.manual_seed(0)
    model = seresnet8(10, (3, 16, 16), width=4)
    assert sum("squeeze.weight" in name for name, _ in model.named_parameters()) == 3
    images = torch.randn(2, 3, 16, 16)
    before = model(images)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "excite.bias" in name:
                value.fill_(-100.0)
    assert not torch.allclose(before, model(images))
