"""skorch's callback and the scores by a net's own criterion."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

import moso
from moso.errors import MosoError
from tests.evidence.loops import (
    BATCH,
    DATA,
    EPOCHS,
    INPUTS,
    LABELS,
    TOLERANCE,
    Network,
    Setting,
    check_same,
    plain_loop,
)
from tests.integrations.noting import check_points, noting

skorch = pytest.importorskip("skorch")
from moso.integrations.skorch import MosoCallback, score  # noqa: E402


class NotingNet(skorch.NeuralNet):
    """A net whose optimiser notes its updates."""

    def initialize_optimizer(self, *args, **kwargs):
        groups = [
            {"params": self.module_.body.parameters(), "lr": 0.05},
            {"params": self.module_.head.parameters()},
        ]
        self.optimizer_ = noting(torch.optim.AdamW)(groups, network=self.module_, lr=0.02)
        return self


def warm_up(schedule):
    return skorch.callbacks.LRScheduler(torch.optim.lr_scheduler.LambdaLR, lr_lambda=schedule, step_every="batch")


def net_of(record, kind=skorch.NeuralNet, criterion=nn.CrossEntropyLoss, module=Network, **options):
    options = {"optimizer": torch.optim.SGD, "lr": 0.2, "optimizer__momentum": 0.9, "max_epochs": EPOCHS, **options}
    schedule = warm_up(lambda n: n / 3 if n < 3 else 1 / n)
    return kind(
        module,
        criterion=criterion,
        batch_size=BATCH,
        train_split=None,
        verbose=0,
        callbacks=[schedule, record],
        **options,
    )


def test_every_update_is_recorded_with_its_own_rate(tmp_path):
    record = MosoCallback(tmp_path / "groups", samples=50)
    net = net_of(record, NotingNet)
    net.fit(INPUTS.numpy(), LABELS.numpy())
    check_points(record.trajectory, net.optimizer_.updates)
    record = MosoCallback(tmp_path / "plain", samples=50)
    net_of(record).fit(INPUTS.numpy(), LABELS.numpy())
    check_same(record.trajectory, plain_loop(Setting()), tolerance=TOLERANCE)
    assert record.trajectory.total_steps == 12
    assert [point.epoch for point in record.trajectory] == [0] * 6 + [1] * 6


def test_partial_fit_continues_and_fit_begins_anew(tmp_path):
    record = MosoCallback(tmp_path / "trajectory", samples=50)
    net = net_of(record, NotingNet, max_epochs=1)
    net.fit(INPUTS.numpy(), LABELS.numpy())
    net.partial_fit(INPUTS.numpy(), LABELS.numpy())
    check_points(record.trajectory, net.optimizer_.updates)
    assert record.trajectory.total_steps == 12
    net.fit(INPUTS.numpy(), LABELS.numpy())
    check_points(record.trajectory, net.optimizer_.updates)
    assert record.trajectory.total_steps == 6


def test_clones_of_a_net_do_not_write_into_its_folder(tmp_path):
    record = MosoCallback(tmp_path, samples=50)
    with pytest.raises(MosoError) as caught:
        record.trajectory  # noqa: B018
    assert caught.value.code == "recorder-misused"
    net = net_of(record)
    net.fit(INPUTS.numpy(), LABELS.numpy())
    with pytest.raises(MosoError) as caught:
        clone(net).fit(INPUTS.numpy(), LABELS.numpy())
    assert caught.value.code == "output-exists"


class Probabilities(nn.Module):
    """What NeuralNetClassifier expects of a module: probabilities."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 2)

    def forward(self, X):
        return self.layer(X).softmax(1)


def test_a_classifier_is_scored_by_the_logarithm_of_its_probabilities(tmp_path):
    record = MosoCallback(tmp_path, samples=50)
    net = net_of(record, skorch.NeuralNetClassifier, nn.NLLLoss, Probabilities)
    net.fit(INPUTS.numpy(), LABELS.numpy())
    found = score(net, INPUTS.numpy(), LABELS.numpy(), trajectory=record.trajectory)

    def by_hand(model, batch):
        return nn.functional.nll_loss(model(batch[0]).log(), batch[1], reduction="none")

    np.testing.assert_allclose(found, moso.score(net.module_, DATA, record.trajectory, loss=by_hand), rtol=1e-4)
    assert net.criterion_.reduction == "mean"
    with pytest.raises(AssertionError):  # softmax twice is another loss
        np.testing.assert_allclose(found, moso.score(net.module_, DATA, record.trajectory), rtol=1e-2)


def test_inputs_by_name_and_several_targets_per_sample_are_scored(tmp_path):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(3, 2)

        def forward(self, first, second):
            return self.layer(torch.cat([first, second], 1))

    record = MosoCallback(tmp_path, samples=50)
    net = net_of(record, skorch.NeuralNetRegressor, nn.MSELoss, Named)
    inputs = {"first": INPUTS[:, :1].numpy(), "second": INPUTS[:, 1:].numpy()}
    targets = torch.randn(24, 2, generator=torch.Generator().manual_seed(3))
    net.fit(inputs, targets.numpy())
    found = score(net, inputs, targets.numpy(), trajectory=record.trajectory)

    def by_hand(model, batch):
        return (model(batch[0][:, :1], batch[0][:, 1:]) - batch[1]).square().mean(1)

    data = torch.utils.data.TensorDataset(INPUTS, targets)
    np.testing.assert_allclose(found, moso.score(net.module_, data, record.trajectory, loss=by_hand), rtol=1e-4)


class Summed(nn.Module):
    """A criterion of the user's own, without a reduction to switch off."""

    def forward(self, outputs, targets):
        return nn.functional.cross_entropy(outputs, targets)


def test_a_criterion_without_reduction_is_refused(tmp_path):
    record = MosoCallback(tmp_path, samples=50)
    net = net_of(record, criterion=Summed)
    net.fit(INPUTS.numpy(), LABELS.numpy())
    with pytest.raises(MosoError) as caught:
        score(net, INPUTS.numpy(), LABELS.numpy(), trajectory=record.trajectory)
    assert caught.value.code == "loss-invalid"


def test_a_fitted_net_can_be_pickled(tmp_path):
    net = skorch.NeuralNet(Network, nn.CrossEntropyLoss, callbacks=[MosoCallback(tmp_path)], max_epochs=1, verbose=0)
    net.set_params(train_split=None).fit(INPUTS.numpy(), LABELS.numpy())
    again = pickle.loads(pickle.dumps(net))  # noqa: S301
    np.testing.assert_array_equal(again.predict(INPUTS.numpy()), net.predict(INPUTS.numpy()))
