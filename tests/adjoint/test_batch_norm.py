"""Batch-norm spelled out: PyTorch's values, gradcheck's derivatives, both of them."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from moso.adjoint.batch_norm import Normalise
from moso.adjoint.running_statistics import RunningStatistics

SHAPES = [(5, 3), (4, 3, 6), (3, 2, 3, 2), (2, 2, 2, 2, 2)]


def layer(shape) -> nn.Module:
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(shape)]
    made = kind(shape[1]).double()
    with torch.no_grad():
        made.weight.uniform_(0.5, 2.0)
        made.bias.normal_()
    return made


@pytest.mark.parametrize("shape", SHAPES)
def test_both_derivatives_are_those_of_finite_differences(shape):
    torch.manual_seed(0)
    inputs = (
        torch.randn(shape, dtype=torch.float64, requires_grad=True),
        torch.rand(shape[1], dtype=torch.float64, requires_grad=True),
        torch.randn(shape[1], dtype=torch.float64, requires_grad=True),
    )
    assert torch.autograd.gradcheck(lambda *given: Normalise.apply(*given, 1e-5), inputs)
    assert torch.autograd.gradgradcheck(lambda *given: Normalise.apply(*given, 1e-5)[0], inputs)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("training", [True, False])
def test_values_and_statistics_are_pytorchs(shape, training):
    torch.manual_seed(0)
    own, inputs = layer(shape).train(training), torch.randn(shape, dtype=torch.float64)
    before = own.running_mean.clone(), own.running_var.clone()
    with RunningStatistics() as statistics:
        found = own(inputs)
    assert torch.equal(own.running_mean, before[0])
    after = statistics.after(own.running_mean), statistics.after(own.running_var)
    torch.testing.assert_close(found, own(inputs))
    torch.testing.assert_close(after, (own.running_mean, own.running_var))


def test_twice_called_it_updates_twice():
    own, inputs = nn.BatchNorm1d(3), torch.randn(4, 3)
    with RunningStatistics() as statistics:
        own(own(inputs))
    found = statistics.after(own.running_var)
    own(own(inputs))
    torch.testing.assert_close(found, own.running_var)


def test_without_weights_and_in_channels_last():
    inputs = torch.randn(4, 3, 5, 5).contiguous(memory_format=torch.channels_last)
    with RunningStatistics():
        found = F.batch_norm(inputs, None, None, training=True)
    torch.testing.assert_close(found, F.batch_norm(inputs, None, None, training=True))
    assert found.is_contiguous(memory_format=torch.channels_last)
