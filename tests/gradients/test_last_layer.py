"""The last layer's gradients in two factors, against autograd one sample at a time."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from moso.gradients import Factored, Point, cross_entropy, last_layer_gradients, last_layer_time_step, time_step
from refusals import refusal


def problem(bias: bool = True, count: int = 12):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 4, bias=bias)).double()
    inputs, labels = torch.randn(count, 6, dtype=torch.float64), torch.randint(0, 4, (count,))
    model(inputs)
    return model.eval(), inputs, labels


def batches_of(inputs, labels, size=5):
    return lambda: [(inputs[i : i + size], labels[i : i + size]) for i in range(0, len(labels), size)]


def one_at_a_time(model, layer, inputs, labels, loss=cross_entropy) -> torch.Tensor:
    rows = []
    for z in range(len(labels)):
        value = loss(model, (inputs[z : z + 1], labels[z : z + 1])).sum()
        rows.append(torch.cat([part.flatten() for part in torch.autograd.grad(value, list(layer.parameters()))]))
    return torch.stack(rows)


def squared_error(model, batch):
    return (model(batch[0]) - batch[1][:, None]).square().sum(1)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("loss", [cross_entropy, squared_error])
def test_products_norms_and_means_equal_autograds(bias, loss):
    model, inputs, labels = problem(bias)
    truth = one_at_a_time(model, model[3], inputs, labels, loss)
    found = last_layer_gradients(Point.of(model, loss), batches_of(inputs, labels))
    formed = torch.einsum("no,ni->noi", found.b, found.a).flatten(1)
    formed = torch.cat([formed, found.b], 1) if bias else formed
    torch.testing.assert_close(formed, truth)
    torch.testing.assert_close(found.squared_norms(), truth.square().sum(1))
    torch.testing.assert_close(found.products(found), truth @ truth.T)
    torch.testing.assert_close(torch.cat([part.products(found) for part in found.blocks(5)]), truth @ truth.T)
    mean = truth.mean(0)
    weight, shift = found.mean()
    torch.testing.assert_close(weight.flatten(), mean[:32])
    assert not bias or torch.allclose(shift, mean[32:])
    torch.testing.assert_close(found.along(weight, shift), truth @ mean)


def test_for_cross_entropy_the_second_factor_is_probability_minus_label():
    model, inputs, labels = problem()
    found = last_layer_gradients(Point.of(model, cross_entropy), batches_of(inputs, labels))
    torch.testing.assert_close(found.b, model(inputs).softmax(1).detach() - F.one_hot(labels, 4))


def test_a_time_step_of_the_last_layer_is_the_exact_one_of_its_parameters():
    model, inputs, labels = problem()
    point = Point.of(model, cross_entropy)
    exact = time_step(point.only(["3.weight", "3.bias"]), batches_of(inputs, labels), (("3.bias",), ("3.weight",)))
    names = [name for name in point.trained if name != "3.weight"]
    found = last_layer_time_step(point, batches_of(inputs, labels), (tuple(names), ("3.weight",)))
    np.testing.assert_allclose(found.dot, exact.dot, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.squared_norm, exact.squared_norm, rtol=1e-9)


def test_any_linear_layer_may_be_named():
    model, inputs, labels = problem()
    found = last_layer_gradients(Point.of(model, cross_entropy), batches_of(inputs, labels), "0")
    truth = one_at_a_time(model, model[0], inputs, labels)
    torch.testing.assert_close(found.squared_norms(), truth.square().sum(1))


class Everywhere(nn.Module):
    """A classifier at every position, and the mean over positions."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(3, 4)

    def forward(self, inputs):
        return self.classifier(inputs.view(len(inputs), 2, 3)).mean(1)


def test_what_has_no_two_factors_is_refused():
    model, inputs, labels = problem()
    point = Point.of(model, cross_entropy)
    with refusal("model-unsuitable", "classifier.weight"):
        last_layer_gradients(Point.of(Everywhere(), cross_entropy), batches_of(inputs.float(), labels))
    with refusal("model-unsuitable", "'2'"):
        last_layer_gradients(point, batches_of(inputs, labels), "2")
    with refusal("model-unsuitable", "1.weight"):
        last_layer_gradients(point, batches_of(inputs, labels), "1")
    with refusal("model-unsuitable", "filtered"):
        last_layer_gradients(point.only(["0.weight"]), batches_of(inputs, labels))
    with refusal("data-empty"):
        last_layer_gradients(point, lambda: [])

    def mixed(model, batch):
        outputs = model(batch[0])
        return F.cross_entropy(outputs - outputs.mean(0), batch[1], reduction="none")

    with refusal("samples-mixed"):
        last_layer_gradients(Point.of(model, mixed), batches_of(inputs, labels))


def test_products_without_a_bias_on_one_side_leave_it_out():
    one = Factored(torch.ones(1, 2), torch.ones(1, 3), bias=True)
    other = Factored(torch.ones(1, 2), torch.ones(1, 3), bias=False)
    assert float(one.products(one)) == 9.0
    assert float(one.products(other)) == 6.0
