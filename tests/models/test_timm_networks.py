"""Networks of timm: plain names, `timm:NAME`, the small-image stem."""

from importlib.util import find_spec

import pytest
import torch
from torch import nn

from moso.errors import MosoError
from moso.models import build_model, classifier_head, models
from moso.models.stem import use_small_stem

pytestmark = pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")

PLAIN = ["resnet18", "resnet34", "resnet50", "seresnet18", "seresnet50", "efficientnet-b0"]


def features(name: str, pixels: int) -> torch.Size:
    model = build_model(name, (3, pixels, pixels), classes=10, seed=0).eval()
    with torch.no_grad():
        maps: torch.Tensor = model.forward_features(torch.zeros(1, 3, pixels, pixels))  # type: ignore[operator]
    return maps.shape


def test_plain_names_are_listed() -> None:
    assert set(PLAIN) <= {name for name, _ in models()}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_names_see_small_images_whole(name: str) -> None:
    # Of the five halvings for 224 pixels, ResNets lose two with the stem, EfficientNets one.
    side = 2 if name == "efficientnet-b0" else 4
    assert features(name, 32)[2:] == (side, side)


@pytest.mark.parametrize("name", ["resnet18", "efficientnet-b0"])
def test_large_images_keep_the_network_as_published(name: str) -> None:
    assert features(name, 96)[2:] == (3, 3)


def test_resnet18_has_the_size_known_from_cifar() -> None:
    model = build_model("resnet18", (3, 32, 32), classes=10, seed=0)
    assert sum(parameter.numel() for parameter in model.parameters()) == 11_173_962


def test_grey_digits_go_through_a_resnet() -> None:
    assert build_model("resnet18", (1, 8, 8), classes=10, seed=0)(torch.zeros(2, 1, 8, 8)).shape == (2, 10)


def test_initialisation_is_a_function_of_the_seed_alone() -> None:
    first = build_model("resnet18", (3, 32, 32), classes=10, seed=0).state_dict()
    torch.rand(3)
    again = build_model("resnet18", (3, 32, 32), classes=10, seed=0).state_dict()
    assert all(torch.equal(value, again[key]) for key, value in first.items())
    other = build_model("resnet18", (3, 32, 32), classes=10, seed=1).state_dict()
    assert not torch.equal(first["conv1.weight"], other["conv1.weight"])


@pytest.mark.parametrize("name", ["resnet18d", "mobilenetv3_small_100", "tf_efficientnet_b0", "vit_tiny_patch16_224"])
def test_other_families_of_timm_take_small_images(name: str) -> None:
    model = build_model(f"timm:{name}", (3, 32, 32), classes=5, seed=0)
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 5)


@pytest.mark.parametrize(("name", "head"), [("resnet18", "fc"), ("efficientnet-b0", "classifier")])
def test_the_head_is_where_timm_says(name: str, head: str) -> None:
    assert classifier_head(build_model(name, (3, 32, 32), classes=7, seed=0))[0] == head


def test_an_unknown_timm_name_gets_the_nearest() -> None:
    with pytest.raises(MosoError, match=r"unknown timm model 'resnt18'; nearest: .*resnet18"):
        build_model("timm:resnt18", (3, 32, 32), classes=10, seed=0)


@pytest.mark.parametrize("name", ["resnet18", "timm:resnet18"])
def test_what_is_no_image_is_refused(name: str) -> None:
    with pytest.raises(MosoError, match="takes images"):
        build_model(name, (64,), classes=10, seed=0)


def test_a_network_with_unknown_first_layers_is_left_alone() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 7, stride=2))
    assert use_small_stem(model) is False
    assert model[0].stride == (2, 2)
