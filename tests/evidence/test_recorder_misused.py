"""Wrong uses of the recorder get one sentence: before training where that can be, and never instead of it."""

import logging

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

import moso
from moso.errors import MosoError
from moso.models.compat import prepare_torchvision
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
    "twice": (lambda m, o: [(m, o), (m, o)], "is attached already; call remove()"),
    "a scheduler": (
        lambda m, o: [(m, lr_scheduler.LinearLR(o))],
        "LinearLR is a learning-rate scheduler; give",
    ),
    "a scaler": (lambda m, o: [(m, torch.amp.GradScaler("cpu"))], "GradScaler is no torch.optim.Optimizer"),
    "a list": (lambda m, o: [(m, [o])], r"a list was given for an optimiser; write attach\(model, \*optimizers\)"),
    "the other way round": (lambda m, o: [(o, m)], r"SGD is no torch.nn.Module; write \(model, optimizer\)"),
    "no optimiser": (lambda m, o: [(m,)], r"no optimiser was given; write attach\(model, optimizer\)"),
    "another model": (lambda m, o: [(Network(), o)], "SGD moves no parameter of this Network; give the model that is"),
    "the same twice": (lambda m, o: [(m, o, o)], "the same SGD was given twice"),
    "shared parameters": (lambda m, o: [(m, o, another(m))], "head.bias is in two of the optimisers"),
    "no hooks": (lambda m, o: [(m, Strange(o))], "Strange does not run the step hooks"),
}


@pytest.mark.parametrize("case", WRONG)
def test_attach_misused_says_so_before_training(tmp_path, case):
    model, optimizer, total = made()
    calls, message = WRONG[case]
    recorder = moso.Recorder(tmp_path, total_steps=total, samples=2)
    *right, wrong = calls(model, optimizer)
    for arguments in right:
        recorder.attach(*arguments)
    with pytest.raises(MosoError, match=message):
        recorder.attach(*wrong)


def test_an_optimiser_without_a_rate_is_refused(tmp_path):
    model, optimizer, total = made()
    del optimizer.param_groups[0]["lr"]
    with pytest.raises(MosoError, match="parameter group without 'lr'"):
        moso.Recorder(tmp_path, total_steps=total, samples=2).attach(model, optimizer)


def test_step_misused_says_so(tmp_path):
    model, optimizer, total = made()
    recorder = moso.Recorder(tmp_path / "attached", total_steps=total, samples=2)
    with recorder.attach(model, optimizer), pytest.raises(MosoError, match=r"take Recorder\.step out of the loop"):
        recorder.step(model, optimizer)
    with pytest.raises(MosoError, match=r"after remove\(\) attach it again"):
        recorder.step(model, optimizer)
    recorder = moso.Recorder(tmp_path / "seldom", total_steps=total, samples=2)
    for _ in range(2):
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    with pytest.raises(MosoError, match=r"made 2 updates since step 0; recorder\.attach"):
        recorder.step(model, optimizer)
    with pytest.raises(MosoError, match="LambdaLR is a learning-rate scheduler"):
        recorder.step(model, lr_scheduler.LambdaLR(optimizer, lambda n: 1))


@pytest.mark.parametrize("done", [-1, 6])
def test_more_steps_before_than_there_are_is_refused(tmp_path, done):
    with pytest.raises(MosoError, match=f"done={done} steps cannot have been made of 5"):
        moso.Recorder(tmp_path, total_steps=5, samples=2, done=done)


def test_a_run_that_is_longer_than_was_said_goes_on_and_its_trajectory_is_refused(tmp_path, caplog):
    recorder = moso.Recorder(tmp_path, total_steps=7, samples=3)
    updates = plain_loop(Setting(), before=recorder.attach)
    assert len(updates) == 12
    said = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1
    assert "training goes on: training made more than the 7 steps" in said[0].getMessage()
    with pytest.raises(MosoError, match="more than the 7 steps that the recorder was told of"):
        _ = recorder.trajectory


def test_a_run_that_is_shorter_than_was_said_tells_what_to_do(tmp_path):
    recorder = every_step(tmp_path, 15)
    plain_loop(Setting(), before=recorder.attach)
    with pytest.raises(MosoError, match=r"after 12 of 15 steps: sampled step 13 was .*open\(folder, total_steps=12\)"):
        _ = recorder.trajectory
    assert len(moso.Trajectory.open(tmp_path, total_steps=12)) == 12


def test_a_full_disk_does_not_end_the_training(tmp_path, caplog, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    recorder = every_step(tmp_path, 12)
    monkeypatch.setattr("moso.evidence.recorder.write_state", full)
    assert len(plain_loop(Setting(), before=recorder.attach)) == 12
    assert caplog.text.count("no space left") == 1
    with pytest.raises(MosoError, match="step 1 could not be recorded: no space left"):
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
    with pytest.raises(MosoError, match="are spread over processes"):
        moso.Recorder(tmp_path, total_steps=total, samples=2).attach(model, optimizer)


def test_timm_lookahead_is_refused_for_it_runs_no_hooks(tmp_path):
    prepare_torchvision()  # timm imports torchvision
    lookahead = pytest.importorskip("timm.optim.lookahead")
    model, optimizer, total = made()
    with pytest.raises(MosoError, match="Lookahead does not run the step hooks"):
        moso.Recorder(tmp_path, total_steps=total, samples=2).attach(model, lookahead.Lookahead(optimizer))
