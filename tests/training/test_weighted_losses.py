"""Weighted training: a weight of two is the sample twice, and equal weights are none."""

import numpy as np
import pytest
import torch
from torch import nn

from moso.data.views import as_view
from moso.training.loop import Checkpoints, StepPlan, TrainingData, train
from moso.training.recipe import TrainingRecipe
from moso.training.weighted_losses import WeighLosses

RECIPE = TrainingRecipe(epochs=4, batch_size=100, learning_rate=0.5, schedule="constant", momentum=0.0)


def data_of(rows, positions):
    inputs = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)[rows]
    view = as_view((inputs, np.array([0, 1, 0, 1, 1, 0])[rows]))
    return TrainingData(view, np.asarray(positions), np.arange(len(rows), dtype=np.uint64))


def trained(data, callbacks=(), recipe=RECIPE, **more):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    history = train(model, StepPlan(data, recipe, seed=0), callbacks=callbacks, **more)
    return torch.cat([one.detach().ravel() for one in model.parameters()]), history


def test_a_weight_of_three_is_the_sample_three_times():
    weighing = WeighLosses(np.array([4, 1, 2]), np.array([3.0, 1.0, 2.0]))
    weighted, history = trained(data_of(np.arange(6), [1, 2, 4]), [weighing])
    repeated, again = trained(data_of(np.array([4, 4, 4, 1, 2, 2]), np.arange(6)))
    assert torch.allclose(weighted, repeated, atol=1e-6)
    assert history.loss == pytest.approx(again.loss, rel=1e-5)


def test_the_scale_of_weights_has_no_say():
    data, positions = data_of(np.arange(6), [0, 3, 5]), np.array([0, 3, 5])
    one = trained(data, [WeighLosses(positions, np.array([1.0, 2.0, 5.0]))])[0]
    other = trained(data, [WeighLosses(positions, np.array([4.0, 8.0, 20.0]))])[0]
    assert torch.allclose(one, other, atol=1e-7)


def test_equal_weights_are_no_weights_to_the_bit():
    recipe = RECIPE.changed(batch_size=2)
    data, positions = data_of(np.arange(6), np.arange(6)), np.arange(6)
    plain = trained(data, recipe=recipe)[0]
    assert torch.equal(plain, trained(data, [WeighLosses(positions, np.full(6, 7.0))], recipe)[0])


def test_a_share_of_the_batch_gets_the_weights_of_its_own_samples():
    weighing = WeighLosses(np.arange(4), np.array([1.0, 2.0, 3.0, 2.0]), share=lambda positions: positions[2:])
    loss = weighing.losses(None, type("S", (), {"positions": np.array([3, 0, 2, 1])})(), lambda *_: torch.ones(2))
    assert loss(nn.Identity(), None).tolist() == [1.5, 1.0]


def test_a_training_that_was_stopped_goes_on_with_the_same_bits(tmp_path):
    recipe = RECIPE.changed(batch_size=2, momentum=0.9)
    data, positions, weights = data_of(np.arange(6), np.arange(6)), np.arange(6), np.array([1.0, 4.0, 2.0, 1, 1, 3])
    whole = trained(data, [WeighLosses(positions, weights)], recipe)[0]
    path = tmp_path / "position.safetensors"
    trained(data, [Checkpoints(path, 0), WeighLosses(positions, weights)], recipe, stop_after=5)
    resumed = trained(data, [Checkpoints(path, 0), WeighLosses(positions, weights)], recipe)[0]
    assert torch.equal(whole, resumed)
