"""The built-in networks: any small image, the layers they claim to have, and per-sample gradients in every way."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, jvp, vmap

from moso.errors import MosoError
from moso.models import build_model
from moso.models.resnet import ResidualBlock

ANY_INPUT = ["linear", "tanh", "mlp"]
IMAGES = ["convnet", "resnet8", "resnet14", "resnet20"]


def parameter_count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", [*ANY_INPUT, *IMAGES])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 8, 8), (3, 9, 7), (3, 32, 32)])
def test_any_small_image_becomes_one_logit_a_class(name: str, shape: tuple[int, ...]) -> None:
    model = build_model(name, shape, classes=7, seed=0)
    assert model(torch.randn(5, *shape)).shape == (5, 7)


@pytest.mark.parametrize("name", ANY_INPUT)
def test_dense_networks_take_inputs_of_any_shape(name: str) -> None:
    assert build_model(name, (13,), classes=3, seed=0)(torch.randn(2, 13)).shape == (2, 3)


@pytest.mark.parametrize("name", IMAGES)
def test_convolutions_refuse_what_is_no_image(name: str) -> None:
    with pytest.raises(MosoError, match=r"takes images \(channels, height, width\) but inputs are of shape \(64,\)"):
        build_model(name, (64,), classes=3, seed=0)


@pytest.mark.parametrize(("name", "layers"), [("resnet8", 8), ("resnet14", 14), ("resnet20", 20)])
def test_a_resnet_has_as_many_layers_as_its_name_says(name: str, layers: int) -> None:
    model = build_model(name, (3, 32, 32), classes=10, seed=0)
    assert sum(isinstance(module, nn.Conv2d | nn.Linear) for module in model.modules()) == layers


def test_resnet20_has_the_published_number_of_parameters() -> None:
    # He et al. (2016), table 6: 0.27 million.
    assert parameter_count(build_model("resnet20", (3, 32, 32), classes=10, seed=0)) == 269_722


def test_no_image_is_halved_more_than_twice() -> None:
    model = build_model("resnet8", (3, 32, 32), classes=10, seed=0)
    stem, blocks = model.get_submodule("stem"), model.get_submodule("blocks")
    assert blocks(stem(torch.zeros(1, 3, 32, 32))).shape == (1, 64, 8, 8)


@pytest.mark.parametrize("name", ["tanh", "mlp", "convnet", "resnet8"])
def test_a_suffix_sets_the_width(name: str) -> None:
    default = parameter_count(build_model(name, (1, 8, 8), classes=10, seed=0))
    assert parameter_count(build_model(f"{name}-w8", (1, 8, 8), classes=10, seed=0)) < default


def test_width_is_what_the_suffix_says() -> None:
    model = build_model("resnet8-w24", (3, 32, 32), classes=100, seed=0)
    assert [m.out_channels for m in model.modules() if isinstance(m, nn.Conv2d)] == [24, 24, 24, 48, 48, 96, 96]


@pytest.mark.parametrize("name", [*ANY_INPUT, *IMAGES])
def test_per_sample_gradients_agree_however_they_are_taken(name: str) -> None:
    model = build_model(name, (1, 8, 8), classes=10, seed=0).double().eval()
    inputs, labels = torch.randn(4, 1, 8, 8, dtype=torch.float64), torch.tensor([0, 3, 9, 3])
    parameters = {key: value.detach() for key, value in model.named_parameters()}
    buffers = dict(model.named_buffers())

    def losses(weights: dict[str, torch.Tensor], batch: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(functional_call(model, (weights, buffers), (batch,)), truth, reduction="none")

    def loss(weights: dict[str, torch.Tensor], one: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        return losses(weights, one[None], truth[None])[0]

    together = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, inputs, labels)
    for position in range(4):
        value = F.cross_entropy(model(inputs[position : position + 1]), labels[position : position + 1])
        alone = torch.autograd.grad(value, list(model.parameters()))
        for key, expected in zip(parameters, alone, strict=True):
            torch.testing.assert_close(together[key][position], expected)

    mean = {key: rows.mean(0) for key, rows in together.items()}
    _, along_mean = jvp(lambda weights: losses(weights, inputs, labels), (parameters,), (mean,))
    dots = sum((rows * mean[key]).flatten(1).sum(1) for key, rows in together.items())
    torch.testing.assert_close(along_mean, dots)


@pytest.mark.parametrize("name", IMAGES)
def test_networks_with_convolutions_learn_through_batch_norm(name: str) -> None:
    model = build_model(name, (1, 8, 8), classes=10, seed=0)
    assert any(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    F.cross_entropy(model(torch.randn(6, 1, 8, 8)), torch.arange(6)).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_shortcut_is_every_second_pixel_and_its_gradient_stays_in_layout() -> None:
    block = ResidualBlock(channels=4, filters=6, stride=2).double()
    torch.nn.init.zeros_(block.norm2.weight)  # nothing but the shortcut is left
    images = torch.rand(3, 4, 8, 8, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
    images.requires_grad_(True)
    output = block(images)
    assert torch.equal(output[:, :4], images[:, :, ::2, ::2])
    assert not output[:, 4:].any()
    (gradient,) = torch.autograd.grad(output.sum(), images)
    expected = torch.zeros_like(images)
    expected[:, :, ::2, ::2] = 1
    assert torch.equal(gradient, expected)
    assert gradient.is_contiguous(memory_format=torch.channels_last)
