"""What a retrained network is judged by, against those who compute the same in other ways."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import r2_score
from torch import nn

from moso.data.samples import StoredSamples
from moso.evaluation.metrics import measured
from moso.evaluation.summary import Line
from moso.tasks import Metric, Regression, cross_entropy, mean_loss, own_metric, squared_error
from moso.tasks.classification import accuracy
from moso.tasks.metric import ACCURACY, LOSS
from moso.tasks.regression import r_squared
from refusals import refusal

DRAW = np.random.default_rng(0)
INPUTS = DRAW.normal(size=(40, 5)).astype(np.float32)


def network(outputs: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.9), nn.Linear(8, outputs)).eval()


def outputs_of(model: nn.Module) -> np.ndarray:
    with torch.no_grad():
        return model(torch.from_numpy(INPUTS)).numpy()


@pytest.mark.parametrize("shape", [(40,), (40, 1), (40, 3)])
def test_r_squared_is_that_of_scikit_learn(shape):
    targets = DRAW.normal(size=shape).astype(np.float32) * 50 + 7
    samples = StoredSamples.from_arrays(INPUTS, targets, Regression())
    model = network(shape[1] if len(shape) > 1 else 1).train()
    values = measured(model, samples.evaluation_view(), np.arange(40), r_squared(samples.answers), batch_size=7)
    assert model.training
    expected = r2_score(targets.reshape(40, -1), outputs_of(model.eval()))
    assert abs(values.mean() - expected) <= 1e-6


def test_accuracy_and_mean_loss_are_what_their_names_say():
    labels = DRAW.integers(0, 3, 40)
    view, model = StoredSamples.from_arrays(INPUTS, labels).evaluation_view(), network(3)
    right = measured(model, view, np.arange(40), accuracy(), batch_size=9)
    np.testing.assert_array_equal(right, outputs_of(model).argmax(1) == labels)
    losses = measured(model, view, np.arange(40), mean_loss(cross_entropy))
    expected = F.cross_entropy(torch.from_numpy(outputs_of(model)), torch.from_numpy(labels), reduction="none")
    np.testing.assert_allclose(losses, expected.numpy(), rtol=1e-5)


def test_what_cannot_be_measured_is_refused_in_one_sentence():
    with refusal("nothing-to-measure", 3):
        r_squared(np.ones(3))
    view = StoredSamples.from_arrays(INPUTS, INPUTS[:, 0], Regression()).evaluation_view()
    with refusal("model-unsuitable", "(40, 2)", "(40,)"):
        measured(network(2), view, np.arange(40), r_squared(INPUTS[:, 0]))

    def f1(model, batch):
        return model(batch[0])

    with refusal("extension-broken", "f1", "(40, 1)"):
        measured(network(1), view, np.arange(40), own_metric(f1))


def test_squared_error_is_one_number_a_sample():
    model, inputs = network(2), torch.from_numpy(INPUTS)
    targets = torch.zeros(40, 2)
    expected = F.mse_loss(model(inputs), targets, reduction="none").mean(1)
    torch.testing.assert_close(squared_error(model, (inputs, targets)), expected)
    one = network(1)
    torch.testing.assert_close(squared_error(one, (inputs, torch.ones(40))), (one(inputs)[:, 0] - 1).square())


def test_the_better_end_depends_on_the_measure():
    assert ACCURACY.best([1.0, 2.0]) == 2.0
    assert LOSS.best([1.0, 2.0]) == 1.0
    assert Line("moso", "top", 0.5, (1.0,), LOSS).merit == -1.0
    assert Line("moso", "top", 0.5, (90.0, 92.0)).text == "91.0 ± 1.4"
    assert Line("moso", "top", 0.5, (0.51234,), LOSS).text == "0.5123"
    assert isinstance(accuracy(), Metric)
