"""Laws of time steps and trajectories."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import moso
from moso.data.views import as_view
from moso.evidence import sample_steps, step_terms, write_state
from moso.evidence.trajectory import point_path
from refusals import refusal


@given(st.integers(1, 400), st.data())
def test_sampled_steps_are_distinct_ascending_and_inside(total, data):
    samples = data.draw(st.integers(1, total))
    for sampling in ("uniform", "stratified"):
        steps = sample_steps(total, samples, 3, sampling)
        assert len(steps) == samples
        assert (np.diff(steps) > 0).all()
        assert steps[0] >= 1
        assert steps[-1] <= total


def test_stratified_steps_are_one_from_each_stretch_and_all_steps_can_be_drawn():
    seen = set()
    for seed in range(200):
        steps = sample_steps(20, 4, seed, "stratified")
        assert ((steps - 1) // 5).tolist() == [0, 1, 2, 3]
        seen.update(steps.tolist())
    assert seen == set(range(1, 21))


def test_more_steps_than_there_are_is_refused():
    with refusal("setting-invalid", 11, 10):
        sample_steps(10, 11, 0)


def loop(recorder, steps, *, scheduler_first=False, rate=0.1):
    """A user's own loop, with a schedule that changes the rate at every step."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    states = {}
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        states[step] = {name: value.clone() for name, value in model.state_dict().items()}
        if scheduler_first:
            scheduler.step()
            recorder.step(model, optimizer)
        else:
            recorder.step(model, optimizer)
            scheduler.step()
    return model, states


@pytest.mark.parametrize("scheduler_first", [False, True])
def test_a_point_is_the_state_after_its_update_with_the_rate_of_its_update(tmp_path, scheduler_first):
    recorder = moso.Recorder(tmp_path, total_steps=30, samples=6, seed=4)
    model, states = loop(recorder, 30, scheduler_first=scheduler_first)
    trajectory = recorder.trajectory
    assert trajectory.total_steps == 30
    assert [point.step for point in trajectory] == sample_steps(30, 6, 4).tolist()
    for point in trajectory:
        assert point.learning_rate == pytest.approx(0.1 / point.step, rel=1e-12)
        point.load_into(model)
        for name, value in model.state_dict().items():
            assert torch.equal(value, states[point.step][name])


def test_a_run_of_unknown_length_leaves_a_uniform_sample(tmp_path):
    counts = np.zeros(12)
    for seed in range(150):
        recorder = moso.Recorder(tmp_path / str(seed), total_steps=None, samples=3, seed=seed)
        loop(recorder, 12)
        trajectory = recorder.trajectory
        assert len(trajectory) == 3
        assert trajectory.total_steps == 12
        assert len(list((tmp_path / str(seed)).glob("step-*"))) == 3
        counts[[point.step - 1 for point in trajectory]] += 1
    assert counts.min() > 15  # 37.5 expected a step
    assert counts.max() < 65
    assert moso.Trajectory.open(tmp_path / "0").total_steps == 12


def test_recorder_misused_says_so(tmp_path):
    recorder = moso.Recorder(tmp_path / "a", total_steps=5, samples=2)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    recorder.step(model, optimizer)
    recorder.step(model, optimizer)  # no update since: a gradient scaler may have skipped one
    assert recorder.done == 1
    for _ in range(2):
        optimizer.step()
    with refusal("recorder-misused", "Recorder.step", "optimizer.step"):
        recorder.step(model, optimizer)
    with refusal("trajectory-incomplete", 1, 5):
        _ = recorder.trajectory
    loop(moso.Recorder(tmp_path / "b", total_steps=40, samples=4, seed=1), 40)
    with refusal("run-differs", "step-00000025.safetensors"):
        moso.Recorder(tmp_path / "b", total_steps=40, samples=4, seed=2)
    with refusal("trajectory-incomplete", 3):
        loop(moso.Recorder(tmp_path / "c", total_steps=3, samples=1), 4)


def test_parameter_groups_take_their_own_rates(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    groups = [{"params": model[0].parameters(), "lr": 0.2}, {"params": model[1].parameters(), "lr": 0.01}]
    optimizer = torch.optim.SGD(groups)
    recorder = moso.Recorder(tmp_path, total_steps=1, samples=1)
    inputs, labels = torch.randn(5, 3), torch.tensor([0, 1, 0, 1, 1])
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
    recorder.step(model, optimizer)
    point = recorder.trajectory[0]
    assert point.learning_rates == (0.2, 0.01)
    with refusal("recorder-misused", 2):
        _ = point.learning_rate
    scores = moso.score(model, (inputs.numpy(), labels.numpy()), recorder.trajectory)
    expected = np.zeros(5)
    for rate, layer in ((0.2, "0."), (0.01, "1.")):
        state = [(point.state(), rate)]
        expected += moso.score(
            model, (inputs.numpy(), labels.numpy()), state, parameters=lambda name, layer=layer: name.startswith(layer)
        )
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


def test_a_trajectory_that_does_not_fit_the_network_is_refused(tmp_path):
    recorder = moso.Recorder(tmp_path, total_steps=1, samples=1)
    loop(recorder, 1)
    view = as_view((np.ones((2, 5)), [0, 1]))
    with refusal("checkpoint-mismatch", "(2, 3)", "(2, 5)"):
        step_terms(nn.Linear(5, 2), recorder.trajectory[0], view, np.arange(2))


def test_foreign_and_broken_files_are_refused(tmp_path):
    with refusal("file-missing"):
        moso.Trajectory.open(tmp_path)
    point_path(tmp_path, 1).write_bytes(b"\x80\x04not safetensors")
    with refusal("file-damaged", "step-00000001.safetensors"):
        moso.Trajectory.open(tmp_path)


def test_the_same_state_gives_the_same_bytes(tmp_path):
    state = {"b": torch.ones(2), "a": torch.zeros(3)}
    for name in ("one", "two"):
        write_state(tmp_path / name, state, {"step": 1, "epoch": 2})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
