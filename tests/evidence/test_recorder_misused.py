"""Wrong uses of the recorder get one sentence: before training where that can be, and never instead of it."""

import logging

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

import moso
from moso.models.compat import prepare_torchvision
from refusals import refusal
from tests.evidence.loops import Network, Setting, every_step, plain_loop


def made(total_steps=5):
    model = Network()
    return model, torch.optim.SGD(model.parameters(), lr=0.1), total_steps


class Strange(torch.optim.SGD):
    """An optimiser that never was made as one, as some wrappers are."""

    def __init__(self, inner):
        self.param_groups = inner.param_groups

    def step(self, closure=None):
        raise AssertionError


def another(model):
    return torch.optim.Adam(model.head.parameters(), lr=0.1)


WRONG = {
    "twice": (lambda m, o: [(m, o), (m, o)], ("recorder-misused",)),
    "a scheduler": (
        lambda m, o: [(m, lr_scheduler.LinearLR(o))],
        ("wrong-type",),
    ),
    "a scaler": (lambda m, o: [(m, torch.amp.GradScaler("cpu"))], ("wrong-type", "torch.optim.Optimizer")),
    "a list": (lambda m, o: [(m, [o])], ("wrong-type",)),
    "the other way round": (lambda m, o: [(o, m)], ("wrong-type", "torch.nn.Module")),
    "no optimiser": (lambda m, o: [(m,)], ("recorder-misused",)),
    "another model": (lambda m, o: [(Network(), o)], ("recorder-misused",)),
    "the same twice": (lambda m, o: [(m, o, o)], ("recorder-misused",)),
    "shared parameters": (lambda m, o: [(m, o, another(m))], ("recorder-misused", "head.bias")),
    "no hooks": (lambda m, o: [(m, Strange(o))], ("recorder-misused", "torch.optim.Optimizer")),
}


@pytest.mark.parametrize("case", WRONG)
def test_attach_misused_says_so_before_training(tmp_path, case):
    model, optimizer, total = made()
    calls, told = WRONG[case]
    recorder = moso.Recorder(tmp_path, total_steps=total, samples=2)
    *right, wrong = calls(model, optimizer)
    for arguments in right:
        recorder.attach(*arguments)
    with refusal(*told):
        recorder.attach(*wrong)


def test_an_optimiser_without_a_rate_is_refused(tmp_path):
    model, optimizer, total = made()
    del optimizer.param_groups[0]["lr"]
    with refusal("recorder-misused", "lr"):
        moso.Recorder(tmp_path, total_steps=total, samples=2).attach(model, optimizer)


def test_step_misused_says_so(tmp_path):
    model, optimizer, total = made()
    recorder = moso.Recorder(tmp_path / "attached", total_steps=total, samples=2)
    with recorder.attach(model, optimizer), refusal("recorder-misused", "Recorder.step"):
        recorder.step(model, optimizer)
    with refusal("recorder-misused", "Recorder.step"):
        recorder.step(model, optimizer)
    recorder = moso.Recorder(tmp_path / "seldom", total_steps=total, samples=2)
    for _ in range(2):
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    with refusal("recorder-misused", 2, 0, "recorder.attach"):
        recorder.step(model, optimizer)
    with refusal("wrong-type"):
        recorder.step(model, lr_scheduler.LambdaLR(optimizer, lambda n: 1))


@pytest.mark.parametrize("done", [-1, 6])
def test_more_steps_before_than_there_are_is_refused(tmp_path, done):
    with refusal("setting-invalid", done, 5):
        moso.Recorder(tmp_path, total_steps=5, samples=2, done=done)


def test_a_run_that_is_longer_than_was_said_goes_on_and_its_trajectory_is_refused(tmp_path, caplog):
    recorder = moso.Recorder(tmp_path, total_steps=7, samples=3)
    updates = plain_loop(Setting(), before=recorder.attach)
    assert len(updates) == 12
    said = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1
    assert "training goes on: training made more than the 7 steps" in said[0].getMessage()
    with refusal("recorder-misused", 7):
        _ = recorder.trajectory


def test_a_run_that_is_shorter_than_was_said_tells_what_to_do(tmp_path):
    recorder = every_step(tmp_path, 15)
    plain_loop(Setting(), before=recorder.attach)
    with refusal("trajectory-incomplete", 12, 15, 13, "total_steps", "moso.Trajectory.open"):
        _ = recorder.trajectory
    assert len(moso.Trajectory.open(tmp_path, total_steps=12)) == 12


def test_a_full_disk_does_not_end_the_training(tmp_path, caplog, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    recorder = every_step(tmp_path, 12)
    monkeypatch.setattr("moso.evidence.recorder.write_state", full)
    assert len(plain_loop(Setting(), before=recorder.attach)) == 12
    assert caplog.text.count("no space left") == 1
    with refusal("recorder-misused", 1):
        _ = recorder.trajectory


@pytest.mark.parametrize("kind", ["zero", "fsdp"])
def test_parameters_that_are_spread_over_processes_are_refused(tmp_path, kind):
    class FullyShardedDataParallel(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

    model, optimizer, total = made()
    if kind == "zero":
        model.head.bias.ds_id = 0
    else:
        model = FullyShardedDataParallel(model)
    with refusal("recorder-misused", "state_dict", "learning_rate"):
        moso.Recorder(tmp_path, total_steps=total, samples=2).attach(model, optimizer)


def test_timm_lookahead_is_refused_for_it_runs_no_hooks(tmp_path):
    prepare_torchvision()  # timm imports torchvision
    lookahead = pytest.importorskip("timm.optim.lookahead")
    model, optimizer, total = made()
    with refusal("recorder-misused", "torch.optim.Optimizer"):
        moso.Recorder(tmp_path, total_steps=total, samples=2).attach(model, lookahead.Lookahead(optimizer))
