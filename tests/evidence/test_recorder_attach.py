"""Laws of `Recorder.attach` and `Recorder.step` in plain loops: a point is an update's rate and the state it left."""

import gc
import logging

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.optim import optimizer as of_torch

import moso
from refusals import refusal
from tests.evidence.loops import (
    DATA,
    SETTINGS,
    Network,
    Setting,
    batches,
    check_same,
    every_step,
    plain_loop,
    rates_now,
    rates_of,
    state_now,
)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_attach_records_every_update_of_a_plain_loop(tmp_path, setting):
    recorder = every_step(tmp_path, setting.updates)
    updates = plain_loop(setting, before=recorder.attach)
    check_same(recorder.trajectory, updates)
    assert_trained_alike(updates, plain_loop(setting))


def assert_trained_alike(one, other):
    for first, second in zip(one, other, strict=True):
        assert all(torch.equal(first.state[name], second.state[name]) for name in first.state)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_step_after_the_scheduler_records_the_rate_of_the_update_from_the_first_on(tmp_path, setting):
    recorder = every_step(tmp_path, setting.updates)
    updates = plain_loop(setting, after_scheduler=recorder.step)
    check_same(recorder.trajectory, updates)
    if setting.schedule == "warm-up":
        assert set(rates_of(recorder.trajectory[0]).values()) == {0.0}


def test_a_recorder_made_after_the_first_update_is_refused_and_not_guessed_at(tmp_path):
    recorders = []

    def late(model, optimizer):
        recorders.append(every_step(tmp_path, 12))
        recorders[-1].step(model, optimizer)

    with refusal("recorder-misused", "recorder.attach"):
        plain_loop(Setting(), after_scheduler=late)
    assert list(tmp_path.iterdir()) == []


def test_without_a_trace_of_an_earlier_update_nothing_is_recorded_and_it_is_said(tmp_path, caplog):
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    recorder = moso.Recorder(tmp_path, total_steps=None)
    with caplog.at_level(logging.INFO):
        recorder.step(model, optimizer)
    assert recorder.done == 0
    assert "saw no update" in caplog.text


@pytest.mark.parametrize("way", ["attach", "step"])
@pytest.mark.parametrize("fused", [False, True])
def test_steps_that_a_gradient_scaler_skips_are_no_steps(tmp_path, way, fused):
    model = Network()
    if fused:  # the scaler calls a fused optimiser every time, and its kernel leaves the weights alone
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (n + 1))
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    overflows = {1, 4, 5, 12}
    recorder = every_step(tmp_path, 12 - len(overflows))
    if way == "attach":
        recorder.attach(model, optimizer)
    rates, states = [], []
    for number, (inputs, labels) in enumerate([*batches(), *batches()], 1):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        scaler.scale(loss * float("inf") if number in overflows else loss).backward()
        before, rate = state_now(model), optimizer.param_groups[0]["lr"]
        scaler.step(optimizer)
        scaler.update()
        if way == "step":
            recorder.step(model, optimizer)
        unmoved = all(torch.equal(before[name], value) for name, value in state_now(model).items())
        assert unmoved == (number in overflows)
        if number not in overflows:
            rates.append(rate)
            states.append(state_now(model))
            scheduler.step()
    assert [point.learning_rate for point in recorder.trajectory] == rates
    for point, state in zip(recorder.trajectory, states, strict=True):
        assert all(torch.equal(point.state()[name], value) for name, value in state.items())


def test_an_update_without_gradients_is_none(tmp_path):
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorder = moso.Recorder(tmp_path, total_steps=None)
    with recorder.attach(model, optimizer):
        optimizer.step()
        assert recorder.done == 0
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        assert recorder.done == 1
        optimizer.zero_grad()
        optimizer.step()
        assert recorder.done == 1
        # A closure makes the gradients inside of the step.
        optimizer.step(lambda: model(torch.ones(2, 3)).sum().backward())
        assert recorder.done == 2


def test_a_class_whose_step_calls_its_parents_makes_one_update(tmp_path):
    class Clipped(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            with torch.no_grad():
                for group in self.param_groups:
                    for parameter in group["params"]:
                        parameter.clamp_(-0.1, 0.1)

    torch.optim.SGD([torch.ones(1)], lr=0.1)  # PyTorch hooks a class when the first of it is made
    model = Network()
    optimizer = Clipped(model.parameters(), lr=0.1)
    recorder = every_step(tmp_path, 2)
    recorder.attach(model, optimizer)
    states = []
    for _ in range(2):
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        states.append(state_now(model))
    assert [point.step for point in recorder.trajectory] == [1, 2]
    for point, state in zip(recorder.trajectory, states, strict=True):
        assert all(torch.equal(point.state()[name], value) for name, value in state.items())


def test_two_optimisers_that_step_per_batch_make_one_step_per_batch(tmp_path):
    model = Network()
    first = torch.optim.SGD(model.body.parameters(), lr=0.1)
    second = torch.optim.AdamW(model.head.parameters(), lr=0.01)
    schedules = [lr_scheduler.ExponentialLR(first, 0.9), lr_scheduler.ExponentialLR(second, 0.5)]
    recorder = every_step(tmp_path, 6)
    recorder.attach(model, first, second)
    expected = []
    for inputs, labels in batches():
        nn.functional.cross_entropy(model(inputs), labels).backward()
        rates = {**rates_now(model, first), **rates_now(model, second)}
        for optimizer in (first, second):
            optimizer.step()
        expected.append((rates, state_now(model)))
        for schedule in schedules:
            schedule.step()
        model.zero_grad()
    for point, (rates, state) in zip(recorder.trajectory, expected, strict=True):
        assert rates_of(point) == rates
        assert all(torch.equal(point.state()[name], value) for name, value in state.items())


def test_in_a_step_no_optimiser_makes_two_updates_and_one_that_makes_none_has_the_rate_0(tmp_path):
    model = Network()
    often = torch.optim.SGD(model.body.parameters(), lr=0.1)
    rarely = torch.optim.SGD(model.head.parameters(), lr=0.01)
    recorder = moso.Recorder(tmp_path, total_steps=6, samples=6)
    recorder.attach(model, often, rarely)
    body, head = 0.1, 0.01
    states = []
    for number, (inputs, labels) in enumerate(batches(), 1):
        nn.functional.cross_entropy(model(inputs), labels).backward()
        often.step()
        if number % 3 == 0:
            rarely.step()
        states.append(state_now(model))
        model.zero_grad()
    rates = [rates_of(point) for point in recorder.trajectory]
    assert [rate["body.0.weight"] for rate in rates] == [body] * 6
    assert [rate["head.weight"] for rate in rates] == [0, 0, head, 0, 0, head]
    for point, state in zip(recorder.trajectory, states, strict=True):
        assert all(torch.equal(point.state()[name], value) for name, value in state.items())


def test_a_skipped_update_of_one_of_two_optimisers_leaves_every_rate_its_own(tmp_path):
    model = Network()
    optimizers = torch.optim.SGD(model.body.parameters(), lr=0.1), torch.optim.SGD(model.head.parameters(), lr=0.2)
    recorder = moso.Recorder(tmp_path, total_steps=None, samples=50)
    recorder.attach(model, *optimizers)
    seen = []  # (which optimiser, its rate, the state it left)
    for number, (inputs, labels) in enumerate([*batches(), *batches()]):
        nn.functional.cross_entropy(model(inputs), labels).backward()
        for which, optimizer in enumerate(optimizers):
            optimizer.param_groups[0]["lr"] = 0.1 + number / 100 + which
            if (number, which) not in {(0, 0), (5, 1), (7, 0)}:
                optimizer.step()
                seen.append((which, optimizer.param_groups[0]["lr"], state_now(model)))
        model.zero_grad()
    # Every update is in exactly one step, with its rate, and the step's state is the one its last update left.
    recorded = [
        (which, rate) for point in recorder.trajectory for which, rate in enumerate(point.learning_rates) if rate
    ]
    assert sorted(recorded) == sorted((which, rate) for which, rate, _ in seen)
    left = [state for _, _, state in seen]
    for point in recorder.trajectory:
        assert any(all(torch.equal(point.state()[name], value) for name, value in state.items()) for state in left)


def test_an_interrupted_run_goes_on(tmp_path):
    whole = plain_loop(Setting())
    updates = []
    for part in (slice(0, 5), slice(5, 12)):
        recorder = every_step(tmp_path, 12, done=len(updates))
        model = Network()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        if updates:
            model.load_state_dict(updates[-1].state)
        recorder.attach(model, optimizer)
        for update in whole[part]:  # replayed by hand: only what the recorder sees matters here
            optimizer.param_groups[0]["lr"] = update.rates["head.weight"]
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
            model.load_state_dict(update.state)
            optimizer.step()
            updates.append(update)
    check_same(recorder.trajectory, whole)


def test_a_run_that_goes_on_may_begin_with_a_batch_that_only_accumulates(tmp_path, caplog):
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    fresh = torch.optim.AdamW(model.parameters(), lr=0.1)
    recorder = every_step(tmp_path, 2, done=1)
    fresh.load_state_dict(optimizer.state_dict())
    recorder.step(model, fresh)  # it bears the traces of earlier updates, but none was made since
    assert "saw no update" in caplog.text
    fresh.step()
    recorder.step(model, fresh)
    assert recorder.done == 2


def test_a_run_of_unknown_length_is_sampled_as_well(tmp_path):
    recorder = moso.Recorder(tmp_path, total_steps=None, samples=4, seed=3)
    updates = plain_loop(Setting(), before=recorder.attach)
    assert recorder.trajectory.total_steps == 12
    assert len(recorder.trajectory) == 4
    assert len(list(tmp_path.glob("step-*"))) == 4
    for point in recorder.trajectory:
        assert rates_of(point) == updates[point.step - 1].rates


def test_remove_ends_recording_and_attach_goes_on(tmp_path):
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorder = moso.Recorder(tmp_path, total_steps=None, samples=50)

    def update():
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()

    handle = recorder.attach(model, optimizer)
    update()
    handle.remove()
    update()
    with recorder.attach(model, optimizer):
        update()
    update()
    assert recorder.done == len(recorder.trajectory) == 2


def test_a_recorder_leaves_no_hook_behind(tmp_path):
    gc.collect()
    before = len(of_torch._global_optimizer_post_hooks), len(of_torch._global_optimizer_pre_hooks)
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    one, other = (moso.Recorder(tmp_path / name, total_steps=None) for name in "ab")
    assert len(of_torch._global_optimizer_post_hooks) == before[0] + 2
    one.attach(model, optimizer).remove()
    del other
    assert (len(of_torch._global_optimizer_post_hooks), len(of_torch._global_optimizer_pre_hooks)) == before
    assert not optimizer._optimizer_step_post_hooks
    assert not optimizer._optimizer_step_pre_hooks


def test_parameters_that_are_frozen_for_a_while_have_no_rate_meanwhile(tmp_path):
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorder = every_step(tmp_path, 2)
    recorder.attach(model, optimizer)
    model.body.requires_grad_(False)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        model.body.requires_grad_(True)
    assert rates_of(recorder.trajectory[0]) == {"head.weight": 0.1, "head.bias": 0.1}
    assert len(rates_of(recorder.trajectory[1])) == 6


def test_a_group_that_is_added_on_the_way_is_recorded(tmp_path):
    model = Network()
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    recorder = every_step(tmp_path, 2)
    recorder.attach(model, optimizer)
    for _ in range(2):
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        if len(optimizer.param_groups) == 1:
            optimizer.add_param_group({"params": list(model.body.parameters()), "lr": 0.01})
    assert recorder.trajectory[0].learning_rates == (0.1,)
    assert recorder.trajectory[1].learning_rates == (0.1, 0.01)


def test_scores_of_an_attached_recorder_are_those_of_its_states(tmp_path):
    recorder = moso.Recorder(tmp_path, total_steps=12, samples=3)
    updates = plain_loop(Setting("per-epoch"), before=recorder.attach)
    steps = [point.step for point in recorder.trajectory]
    states = [(updates[step - 1].state, updates[step - 1].rates["head.bias"]) for step in steps]
    found = moso.score(Network(), DATA, recorder.trajectory)
    assert found.tolist() == moso.score(Network(), DATA, states, total_steps=12).tolist()
