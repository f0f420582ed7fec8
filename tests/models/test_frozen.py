"""Frozen parts: what moves, what stays in evaluation mode, and where the network can be cut."""

import copy

import pytest
import torch
from torch import nn

from moso.errors import MosoError
from moso.models import Start, build_model
from moso.models.freezing import freeze
from moso.models.trunk import cut_frozen


def moving(model):
    return {name for name, one in model.named_parameters() if one.requires_grad}


def test_head_and_last_blocks():
    assert moving(build_model("mlp-w4", (3,), 2, 0, start=Start(train="head"))) == {
        "classifier.weight",
        "classifier.bias",
    }
    last = build_model("resnet8", (3, 8, 8), 2, 0, start=Start(train="last:2"))
    assert {name.split(".")[0] for name in moving(last)} == {"blocks", "classifier"}
    assert {name.split(".")[1] for name in moving(last) if name.startswith("blocks")} == {"2"}


@pytest.mark.parametrize("what", ["heads", "last:0", "last:x", ""])
def test_what_is_no_part_is_refused(what):
    with pytest.raises(MosoError) as caught:
        Start(train=what)
    assert caught.value.code == "setting-invalid"


def test_more_blocks_than_there_are():
    with pytest.raises(MosoError) as caught:
        build_model("mlp-w4", (3,), 2, 0, start=Start(train="last:4"))
    assert caught.value.code == "setting-invalid"


def test_a_network_without_a_head():
    with pytest.raises(MosoError) as caught:
        freeze(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten()), "head")
    assert caught.value.code == "model-unsuitable"


def test_frozen_batch_norm_keeps_its_statistics_in_training():
    model = build_model("convnet-w4", (1, 8, 8), 3, 0, start=Start(train="head")).train()
    before = copy.deepcopy(model.features.state_dict())
    copied = copy.deepcopy(model).train()
    for one in (model, copied):
        one(torch.randn(8, 1, 8, 8))
        assert all(torch.equal(before[name], value) for name, value in one.features.state_dict().items())


def test_trained_batch_norm_moves():
    model = build_model("convnet-w4", (1, 8, 8), 3, 0).train()
    before = copy.deepcopy(model.state_dict())
    model(torch.randn(8, 1, 8, 8))
    assert not all(torch.equal(before[name], value) for name, value in model.state_dict().items())


CASES = [
    ("convnet-w4", (1, 8, 8), "head", None),
    ("convnet-w4", (1, 8, 8), "last:2", None),
    ("resnet8", (3, 8, 8), "last:3", None),
    ("mlp-w4", (5,), "head", None),
    ("mlp-w4", (5,), "last:2", None),
    ("bag", (6,), "head", 20),
    ("resnet18", (3, 32, 32), "head", None),
    ("timm:mobilenetv3_small_050", (3, 32, 32), "last:2", None),
    ("timm:vit_tiny_patch16_224", (3, 32, 32), "head", None),
]


@pytest.mark.parametrize(("name", "shape", "train", "vocabulary"), CASES)
def test_the_parts_are_the_network_in_both_modes(name, shape, train, vocabulary):
    model = build_model(name, shape, 3, 0, vocabulary=vocabulary, start=Start(train=train))
    draw = torch.Generator().manual_seed(0)
    size = (4, *shape)
    inputs = torch.randn(size, generator=draw) if vocabulary is None else torch.randint(0, 20, size, generator=draw)
    cut = cut_frozen(model, inputs)
    assert cut is not None
    assert moving(cut.rest) == moving(model)
    assert not moving(cut.trunk)
    for mode in (False, True):
        whole, rest = copy.deepcopy(model).train(mode), copy.deepcopy(cut.rest).train(mode)
        with torch.no_grad():
            torch.testing.assert_close(rest(cut.trunk.eval()(inputs)), whole(inputs), rtol=1e-5, atol=1e-5)


def test_a_network_without_frozen_parts_is_not_cut():
    assert cut_frozen(build_model("mlp-w4", (5,), 3, 0), torch.randn(2, 5)) is None


class Skips(nn.Module):
    """The classifier sees the raw input as well, so that no single value separates what is frozen."""

    def __init__(self):
        super().__init__()
        self.trunk, self.classifier = nn.Linear(4, 4), nn.Linear(8, 2)
        self.trunk.requires_grad_(False)

    def forward(self, inputs):
        return self.classifier(torch.cat([self.trunk(inputs), inputs], dim=1))


class Noisy(nn.Module):
    """Dropout outside of what is frozen stays behind the cut."""

    def __init__(self):
        super().__init__()
        self.trunk, self.drop, self.classifier = nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)
        self.trunk.requires_grad_(False)

    def forward(self, inputs):
        return self.classifier(self.drop(self.trunk(inputs)))


class Mixes(Noisy):
    """The trunk's row of a sample depends on the others of its batch."""

    def forward(self, inputs):
        return self.classifier(self.trunk(inputs) - inputs.mean(0))


class Branches(Noisy):
    """The forward pass asks for values, which no trace knows."""

    def forward(self, inputs):
        return self.classifier(self.trunk(inputs) if inputs.sum() > 0 else -self.trunk(inputs))


def test_where_no_single_value_separates_the_parts_nothing_is_cut():
    skipping = cut_frozen(Skips(), torch.randn(3, 4))
    assert skipping is None or skipping.after == "cat"  # what both feed is one value again
    assert cut_frozen(Mixes(), torch.randn(3, 4)) is None
    assert cut_frozen(Branches(), torch.randn(3, 4)) is None


def test_dropout_stays_behind_the_cut():
    model = Noisy()
    cut = cut_frozen(model, torch.randn(3, 4))
    assert cut is not None
    assert any(isinstance(module, nn.Dropout) for module in cut.rest.modules())
    assert not any(isinstance(module, nn.Dropout) for module in cut.trunk.modules())
