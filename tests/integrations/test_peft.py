"""Adapters: only what is trained is recorded, and the files that peft writes are scored under their live names."""

import numpy as np
import pytest
import torch
from torch import nn

import moso
from moso.errors import MosoError
from tests.evidence.loops import INPUTS, LABELS, Network, brute_force, state_now
from tests.integrations.noting import noting

peft = pytest.importorskip("peft")
from moso.integrations.peft import adapter_trajectory, record  # noqa: E402

DOUBLES = torch.utils.data.TensorDataset(INPUTS.double(), LABELS)


def adapted(seed=5):
    torch.manual_seed(seed)
    options = {"target_modules": ["body.0"], "modules_to_save": ["head"], "r": 2}
    return peft.get_peft_model(Network().double(), peft.LoraConfig(**options)).double()


def train(model, optimizer, steps, after=lambda step: None):
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(INPUTS.double()), LABELS).backward()
        optimizer.step()
        after(step)


def trained_of(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def test_only_what_is_trained_is_recorded_and_scored(tmp_path):
    model = adapted()
    optimizer = noting(torch.optim.AdamW)(trained_of(model), network=model, lr=0.1)
    recording = record(model, optimizer, folder=tmp_path, total_steps=4, samples=4)
    train(model, optimizer, 4)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    for point, update in zip(recording.trajectory, optimizer.updates, strict=True):
        assert set(point.state()) & dict(model.named_parameters()).keys() == trained
        assert all(torch.equal(value, update.state[name]) for name, value in point.state().items())
    expected = brute_force(
        model, [(update.state, dict.fromkeys(trained, 0.1)) for update in optimizer.updates], *DOUBLES.tensors, 4
    )
    found = moso.score(adapted(), DOUBLES, recording.trajectory)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_another_network_under_the_adapter_is_noticed(tmp_path):
    model = adapted()
    optimizer = torch.optim.SGD(trained_of(model), lr=0.1)
    recording = record(model, optimizer, folder=tmp_path, total_steps=2, samples=1)
    train(model, optimizer, 2)
    other = adapted()
    with torch.no_grad():
        other.base_model.model.body[0].base_layer.weight.add_(1)
    with pytest.raises(MosoError) as caught:
        moso.score(other, DOUBLES, recording.trajectory)
    assert caught.value.code == "checkpoint-mismatch"


def test_the_checkpoints_that_peft_writes_are_scored_by_their_live_names(tmp_path):
    model = adapted()
    optimizer = torch.optim.SGD(trained_of(model), lr=0.1)
    states = {}

    def save(step):
        if step % 2 == 0:
            model.save_pretrained(tmp_path / f"checkpoint-{step}")
            states[step] = state_now(model)

    train(model.eval(), optimizer, 6, save)  # in evaluation mode, batch-norm's statistics stay those of the base
    rates = {2: 0.3, 4: 0.2, 6: 0.1}
    files = {tmp_path / f"checkpoint-{step}": rate for step, rate in rates.items()}
    trajectory = adapter_trajectory(adapted(), files, total_steps=9)
    assert [point.step for point in trajectory] == [2, 4, 6]
    for point in trajectory:  # as peft itself loads them
        loaded = peft.PeftModel.from_pretrained(Network().double(), tmp_path / f"checkpoint-{point.step}")
        live = dict(loaded.named_parameters())
        assert all(torch.equal(value, live[name]) for name, value in point.state().items())
        assert all("default" in name for name in point.state())
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    pairs = [(states[step], dict.fromkeys(trained, rate)) for step, rate in rates.items()]
    expected = brute_force(model, pairs, *DOUBLES.tensors, 9)
    found = moso.score(adapted(), DOUBLES, trajectory)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_folders_that_hold_no_adapter_or_a_pickle_are_refused(tmp_path):
    model = adapted()
    model.save_pretrained(tmp_path / "last")
    assert adapter_trajectory(model, {tmp_path / "last": 0.1})[0].step == 1
    (tmp_path / "empty").mkdir()
    (tmp_path / "pickled").mkdir()
    torch.save({}, tmp_path / "pickled" / "adapter_model.bin")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "adapter_model.safetensors").write_bytes(b"not a tensor")
    for folder, code in {"empty": "file-missing", "pickled": "file-missing", "broken": "file-unreadable"}.items():
        with pytest.raises(MosoError) as caught:
            adapter_trajectory(model, {tmp_path / folder: 0.1})
        assert caught.value.code == code
    with pytest.raises(MosoError) as caught:
        adapter_trajectory(model, {})
    assert caught.value.code == "trajectory-incomplete"
    other = peft.get_peft_model(Network().double(), peft.LoraConfig(target_modules=["head"], r=2))
    with pytest.raises(MosoError) as caught:
        adapter_trajectory(other, {tmp_path / "last": 0.1})
    assert caught.value.code == "checkpoint-mismatch"
