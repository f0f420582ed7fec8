"""The mean gradient alone, batch-norm folded, against plain autograd."""

import copy

import pytest
import torch
from torch import nn

from moso.gradients import Point, cross_entropy, mean_gradient
from moso.randomness import seeded


class SharedNorm(nn.Module):
    """One batch-norm behind two convolutions, and once on its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, bias=False), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.head = nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.norm(self.first(x)))
        x = self.norm(self.norm(self.second(x)))
        return self.head(x.mean((2, 3)))


def plain() -> nn.Module:
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 3))
    convolutions = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 5, 3, bias=False)
    norms = nn.BatchNorm2d(4), nn.BatchNorm2d(5, affine=False)
    return nn.Sequential(convolutions[0], norms[0], nn.Tanh(), convolutions[1], norms[1], head)


def frozen_convolution() -> nn.Module:
    model = plain()
    model[0].weight.requires_grad_(False)
    model[1].bias.requires_grad_(False)
    return model


def frozen_norm() -> nn.Module:
    model = plain()
    model[1].requires_grad_(False)
    return model


def without_norm() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 7 * 7, 3))


@pytest.mark.parametrize("build", [plain, SharedNorm, frozen_convolution, frozen_norm, without_norm])
def test_the_mean_gradient_is_autograd_s(build) -> None:
    with seeded("mean", build.__name__):
        model = build().double()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
        x, labels = torch.randn(11, 3, 7, 7, dtype=torch.float64), torch.randint(3, (11,))
    reference = copy.deepcopy(model).eval()
    nn.functional.cross_entropy(reference(x), labels).backward()
    batches = [(x[:4], labels[:4]), (x[4:], labels[4:])]
    found = mean_gradient(Point.of(model, cross_entropy), lambda: batches)
    expected = {name: value.grad for name, value in reference.named_parameters() if value.requires_grad}
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-10, atol=1e-13)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_half_precision_is_added_up_in_float32() -> None:
    model = nn.Linear(1, 2, bias=False).bfloat16()
    nn.init.zeros_(model.weight)
    # In bfloat16 a sum of halves stops growing at 128; the mean of 2000 equal gradients is the gradient.
    batch = torch.ones(1, 1, dtype=torch.bfloat16), torch.tensor([0])
    found = mean_gradient(Point.of(model, cross_entropy), lambda: [batch] * 2000)
    assert found["weight"].flatten().tolist() == [-0.5, 0.5]
