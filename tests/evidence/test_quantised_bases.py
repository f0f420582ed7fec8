"""Bases under adapters: in half precision they are scored in float32, quantised ones are refused before any work."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import moso
from refusals import refusal

SAMPLES = 24


class Adapted(nn.Module):
    """A frozen linear layer with an adapter of rank 2 beside it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, 2, bias=False)
        self.up = nn.Linear(2, base.out_features, bias=False)

    def forward(self, inputs):
        rough = self.base(inputs.to(self.base.weight.dtype) if self.base.weight.is_floating_point() else inputs)
        return rough.float() + self.up(self.down(inputs.to(self.down.weight.dtype))).float()


def adapted(base=None):
    torch.manual_seed(0)
    return Adapted(nn.Linear(16, 3) if base is None else base)


def data():
    draw = torch.Generator().manual_seed(0)
    return torch.utils.data.TensorDataset(
        torch.randn(SAMPLES, 16, generator=draw), torch.randint(0, 3, (SAMPLES,), generator=draw)
    )


def one_by_one(model):
    """Proposition 1.1 at one step, from gradients of autograd one sample at a time on the same network."""
    moving = [one for one in model.parameters() if one.requires_grad]
    rows = []
    for inputs, label in data():
        loss = F.cross_entropy(model(inputs[None]), label[None])
        rows.append(torch.cat([one.double().flatten() for one in torch.autograd.grad(loss, moving)]))
    g = torch.stack(rows)
    return ((SAMPLES * (g @ g.mean(0)) - (g**2).sum(1)) / (SAMPLES - 1)).numpy()


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_a_frozen_base_in_half_precision_has_adapter_gradients_of_float32(kind):
    model = adapted(nn.Linear(16, 3).to(kind))
    found = moso.score(model, data(), [(model.state_dict(), 0.1)], method="moso", total_steps=1)
    expected = one_by_one(model)
    assert np.abs(found * SAMPLES / 0.1 - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_adapters_in_half_precision_are_refused(kind):
    model = adapted()
    model.up.to(kind)
    with refusal("model-unsuitable", "up.weight is trained in half precision"):
        moso.score(model, data(), [(model.state_dict(), 0.1)])


def refused_everywhere(model, tmp_path, words):
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
    recorder = moso.Recorder(tmp_path / "trajectory", total_steps=2, samples=1, trainable_only=True)
    with refusal("model-unsuitable", words):
        recorder.attach(model, optimizer)
    with refusal("model-unsuitable", words):
        moso.score(model, data(), [({}, 0.1)])


def test_a_quantised_parameter_is_refused_by_the_package_of_its_type(tmp_path):
    made_up = type("Params4bit", (nn.Parameter,), {"__module__": "bitsandbytes.nn.modules"})
    model = adapted()
    model.base.weight = made_up(model.base.weight.detach(), requires_grad=False)
    refused_everywhere(model, tmp_path, "base.weight is quantised (Params4bit of bitsandbytes)")


@pytest.mark.parametrize("bits", [4, 8])
def test_a_base_of_bitsandbytes_is_refused(tmp_path, bits):
    bitsandbytes = pytest.importorskip("bitsandbytes")
    made = bitsandbytes.nn.Linear4bit if bits == 4 else bitsandbytes.nn.Linear8bitLt
    refused_everywhere(adapted(made(16, 3).to("cpu")), tmp_path, "of bitsandbytes")


def test_a_base_of_torchao_is_refused(tmp_path):
    quantization = pytest.importorskip("torchao.quantization")
    base = nn.Sequential(nn.Linear(16, 3))
    quantization.quantize_(base, quantization.Int8WeightOnlyConfig())
    refused_everywhere(adapted(base[0]), tmp_path, "of torchao")
