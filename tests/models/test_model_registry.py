"""Networks by name: one w_0 a seed, whatever happened before, and a sentence for every name that does not work."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from moso.errors import MosoError
from moso.models import build_model, check_model, models


def weights(name: str, seed: int) -> torch.Tensor:
    model = build_model(name, (3, 8, 8), classes=5, seed=seed)
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("name", ["linear", "mlp", "convnet", "resnet8"])
def test_initialisation_is_a_function_of_the_seed_alone(name: str) -> None:
    first = weights(name, seed=3)
    torch.manual_seed(99)
    torch.rand(17)
    build_model("mlp", (4,), classes=2, seed=8)
    assert torch.equal(first, weights(name, seed=3))
    assert not torch.equal(first, weights(name, seed=4))


def test_building_a_network_leaves_the_global_generators_alone() -> None:
    torch.manual_seed(0)
    random.seed(0)
    before, python_before = torch.random.get_rng_state(), random.getstate()
    numpy_before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    build_model("convnet", (1, 8, 8), classes=10, seed=1)
    assert torch.equal(before, torch.random.get_rng_state())
    assert python_before == random.getstate()
    assert np.array_equal(numpy_before, np.random.get_state()[1])  # type: ignore[index]  # noqa: NPY002


def test_networks_come_in_training_mode_with_untouched_statistics() -> None:
    model = build_model("convnet", (1, 8, 8), classes=10, seed=0)
    assert all(module.training for module in model.modules())
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.num_batches_tracked == 0
            assert torch.equal(module.running_mean, torch.zeros_like(module.running_mean))


def test_names_are_unique_and_described() -> None:
    names = [name for name, _ in models()]
    assert len(set(names)) == len(names)
    assert all(description for _, description in models())


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("resnet9", "unknown model 'resnet9'; nearest: resnet8"),
        ("quantum", "unknown model 'quantum'"),
        ("convnet-wide", "unknown model 'convnet-wide'; nearest: convnet"),
        ("convnet-w0", "unknown model 'convnet-w0'"),
        ("linear-w8", "model 'linear' has one width only"),
        ("resnet18-w8", "model 'resnet18' has one width only"),
    ],
)
def test_names_that_do_not_work_get_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(MosoError, match=sentence):
        build_model(name, (3, 8, 8), classes=10, seed=0)


def test_unknown_names_are_told_about_the_other_forms() -> None:
    with pytest.raises(MosoError, match=r"package\.module:factory.*timm:NAME"):
        build_model("quantum", (3, 8, 8), classes=10, seed=0)


def test_one_class_is_refused() -> None:
    with pytest.raises(MosoError, match="at least 2 classes, not 1"):
        build_model("linear", (4,), classes=1, seed=0)


def test_the_check_leaves_every_mode_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    model[1].eval()
    check_model(model, "frozen", (4,), classes=2)
    assert [module.training for module in model] == [True, False, True]


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (nn.Linear(5, 2), r"does not take inputs of shape \(4,\): RuntimeError"),
        (nn.Linear(4, 3), r"gives \(2, 3\) for a batch of 2 where \(2, 2\) was expected"),
        (nn.LSTM(4, 2), "gives a tuple where a tensor of logits was expected"),
        (nn.Linear(4, 2).requires_grad_(False), "no trainable parameters"),
    ],
)
def test_networks_that_do_not_fit_the_data_are_refused(model: nn.Module, sentence: str) -> None:
    with pytest.raises(MosoError, match=sentence):
        check_model(model, "mine", (4,), classes=2)
