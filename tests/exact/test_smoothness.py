"""Smoothness where it is known: a run that is linear in its weights, one that is smooth, and one that is not."""

import numpy as np
import pytest
import torch
from torch import nn

from moso import errors
from moso.data.views import as_view
from moso.exact.smoothness import measure_smoothness
from moso.gradients import cross_entropy
from moso.randomness import hashes
from moso.training.loop import TrainingData
from moso.training.recipe import TrainingRecipe


def data(count=64, seed=0):
    draw = np.random.default_rng(seed)
    inputs, labels = draw.normal(0, 1, (count, 6)).astype(np.float32), draw.integers(0, 3, count)
    return TrainingData(as_view((inputs, labels)), np.arange(count), np.arange(count, dtype=np.uint64))


def linear():
    torch.manual_seed(0)
    return nn.Linear(6, 3).double()


def rough():
    torch.manual_seed(0)
    layers = [nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(32, 3)).double()


def loss(model, batch):
    inputs, labels = batch
    return cross_entropy(model, (inputs.double(), labels))


def recipe(**changes):
    plain = {"epochs": 1, "batch_size": 64, "learning_rate": 0.1, "schedule": "constant", "momentum": 0.0}
    return TrainingRecipe(**{**plain, **changes})


def test_one_update_is_linear_in_the_weights():
    found = measure_smoothness(linear, data(), recipe(), 0, loss=loss)
    assert found.agreement == pytest.approx(1.0)
    assert found.bend == pytest.approx(0.0, abs=1e-9)
    assert found.trust == "trusted"


def test_the_nudge_is_what_it_says():
    """The networks of one update by hand: rate x mean over samples of weight x gradient."""
    samples, trained = data(), []

    def noted():
        trained.append(linear())
        return trained[-1]

    measure_smoothness(noted, samples, recipe(), 3, loss=loss, nudge=0.1)
    signs = 1 - 2 * (hashes(samples.keys, 3, "smoothness") >> np.uint64(63)).astype(float)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    batch = samples.view.batch(samples.positions, 0)
    for number, found in enumerate(trained):
        model = linear()
        (loss(model, batch) * torch.from_numpy(1 + 0.1 * number * signs)).mean().backward()
        assert torch.allclose(found.weight, model.weight - 0.1 * model.weight.grad, atol=1e-12)


def test_a_smooth_run_is_trusted_and_a_rough_one_is_not():
    smooth = measure_smoothness(linear, data(), recipe(epochs=30, momentum=0.9), 0, loss=loss)
    assert smooth.trust == "trusted"
    assert 0 < smooth.bend < 0.2
    wild = recipe(epochs=60, batch_size=8, learning_rate=0.5, momentum=0.9)
    found = measure_smoothness(rough, data(), wild, 0, loss=loss)
    assert found.agreement < 0.5
    assert found.bend > 1
    assert found.trust == "not to be trusted"
    assert "window" in found.sentence()


def test_a_window_is_smoother():
    wild = recipe(epochs=60, batch_size=8, learning_rate=0.5, momentum=0.9)
    whole, last = (measure_smoothness(rough, data(), wild, 0, loss=loss, window=window) for window in (1.0, 1 / 60))
    assert last.agreement > whole.agreement + 0.2


@pytest.mark.parametrize("settings", [{"nudge": 0.0}, {"nudge": 0.6}, {"window": 0.0}])
def test_what_makes_no_sense_is_refused(settings):
    with pytest.raises(errors.SettingInvalid) as problem:
        measure_smoothness(linear, data(), recipe(), 0, loss=loss, **settings)
    assert problem.value.code == "setting-invalid"
