"""What moves is scored at its own rate, and nothing else is: against plain autograd, one sample at a time."""

import copy
import json
import logging

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import moso
from refusals import refusal
from tests.evidence.loops import INPUTS, LABELS, Network, brute_force, every_step, rates_of, state_now

DOUBLES = torch.utils.data.TensorDataset(INPUTS.double(), LABELS)


def network() -> Network:
    model = Network().double()
    with torch.no_grad():
        for buffer in (model.body[1].running_mean, model.body[1].running_var):
            buffer.uniform_(0.5, 1.5)
    return model


def train(model, *optimizers, steps=4):
    for step in range(steps):
        model.train()
        model.zero_grad()
        nn.functional.cross_entropy(model(INPUTS.double()), LABELS).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.param_groups[0]["lr"] = 0.1 / (step + 2)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def truth(recorder):
    points = [(point.state(), rates_of(point)) for point in recorder.trajectory]
    return brute_force(network(), points, INPUTS.double(), LABELS, recorder.trajectory.total_steps)


@pytest.mark.parametrize("way", ["attach", "step"])
def test_an_optimiser_of_the_head_over_an_unfrozen_body_scores_as_with_the_body_frozen(tmp_path, way):
    scores = {}
    for frozen in (False, True):
        model = network()
        model.body.requires_grad_(not frozen)
        optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
        recorder = every_step(tmp_path / str(frozen), 4)
        if way == "attach":
            recorder.attach(model, optimizer)
            train(model, optimizer)
        else:
            for _ in range(4):
                train(model, optimizer, steps=1)
                recorder.step(model, optimizer)
        assert rates_of(recorder.trajectory[0]).keys() == {"head.weight", "head.bias"}
        scores[frozen] = moso.score(model, DOUBLES, recorder.trajectory)
        close(scores[frozen], truth(recorder))
    close(scores[False], scores[True])


def test_several_optimisers_and_groups_take_each_its_own_rate(tmp_path):
    model = network()
    groups = [{"params": model.body[0].parameters()}, {"params": model.body[1].parameters(), "lr": 0.03}]
    first, second = torch.optim.SGD(groups, lr=0.1), torch.optim.SGD(model.head.parameters(), lr=0.02)
    recorder = every_step(tmp_path, 4)
    recorder.attach(model, first, second)
    train(model, first, second)
    assert len(rates_of(recorder.trajectory[0])) == 6
    close(moso.score(model, DOUBLES, recorder.trajectory), truth(recorder))


def test_the_users_own_filter_is_applied_to_what_moves(tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    recorder = every_step(tmp_path, 2)
    recorder.attach(model, optimizer)
    train(model, optimizer, steps=2)
    points = [(point.state(), {"head.bias": rates_of(point)["head.bias"]}) for point in recorder.trajectory]
    expected = brute_force(network(), points, INPUTS.double(), LABELS, 2)
    close(moso.score(model, DOUBLES, recorder.trajectory, parameters=lambda name: name.endswith("bias")), expected)
    with refusal("model-unsuitable"):
        moso.score(model, DOUBLES, recorder.trajectory, parameters=lambda name: name.startswith("body"))


def test_the_groups_are_written_with_one_group_too(tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorder = every_step(tmp_path, 1)
    recorder.attach(model, optimizer)
    train(model, optimizer, steps=1)
    [point] = recorder.trajectory
    assert point.groups == (tuple(name for name, _ in model.named_parameters()),)
    assert point.learning_rate == 0.1


def test_a_file_without_groups_means_all_trainable_parameters(tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorder = every_step(tmp_path, 2)
    recorder.attach(model, optimizer)
    train(model, optimizer, steps=2)
    expected = moso.score(model, DOUBLES, recorder.trajectory)
    for path in tmp_path.glob("step-*.safetensors"):  # as they were written before groups always were
        with safe_open(path, framework="pt") as file:
            note = json.loads(file.metadata()["moso"])
        del note["groups"], note["checksum"]
        save_file(load_file(path), path, metadata={"moso": json.dumps(note)})
    old = moso.Trajectory.open(tmp_path)
    assert old[0].groups == ()
    np.testing.assert_array_equal(moso.score(model, DOUBLES, old), expected)


@pytest.mark.parametrize("way", ["attach", "step"])
def test_a_second_optimiser_that_is_not_recorded_is_noticed_and_scoring_refused(tmp_path, caplog, way):
    model = network()
    first = torch.optim.SGD(model.head.parameters(), lr=0.1)
    second = torch.optim.SGD(model.body[0].parameters(), lr=0.1)
    recorder = every_step(tmp_path, 4)
    if way == "attach":
        recorder.attach(model, first)
    for _ in range(4):
        train(model, first, second, steps=1)
        if way == "step":
            recorder.step(model, first)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1
    assert "body.0.weight changes, but no recorded optimiser moves it" in said[0]
    told = ("trajectory-incomplete", "body.0.weight", 2, "first_optimizer", "second_optimizer")
    with refusal(*told):
        moso.score(model, DOUBLES, recorder.trajectory)
    with refusal(*told):
        moso.score(model, DOUBLES, moso.Trajectory.open(tmp_path))


def test_a_parameter_that_stands_still_or_that_an_optimiser_takes_up_later_is_no_reason_to_refuse(tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    recorder = every_step(tmp_path, 4)
    recorder.attach(model, optimizer)
    train(model, optimizer, steps=2)
    optimizer.add_param_group({"params": list(model.body.parameters()), "lr": 0.01})
    train(model, optimizer, steps=2)
    close(moso.score(model, DOUBLES, recorder.trajectory), truth(recorder))


@pytest.mark.parametrize("frozen", [False, True])
def test_what_training_leaves_alone_need_not_be_written(tmp_path, frozen):
    start = network()
    start.body.requires_grad_(not frozen)
    scores, sizes = {}, {}
    for trainable_only in (False, True):
        model = copy.deepcopy(start)
        optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
        recorder = every_step(tmp_path / str(trainable_only), 3, trainable_only=trainable_only)
        recorder.attach(model, optimizer)
        train(model, optimizer, steps=3)
        scores[trainable_only] = moso.score(start, DOUBLES, recorder.trajectory)
        sizes[trainable_only] = recorder.trajectory[2].state().keys()
        recorder.trajectory[2].load_into(model)
        state = state_now(model)
    np.testing.assert_array_equal(scores[True], scores[False])
    assert sizes[False] == state.keys()
    # Batch-norm's statistics change although its parameters do not.
    statistics = {"body.1.running_mean", "body.1.running_var", "body.1.num_batches_tracked"}
    assert sizes[True] == {"head.weight", "head.bias"} | statistics
    with torch.no_grad():
        start.body[0].weight[0, 0] += 1e-9
    with refusal("checkpoint-mismatch", "body.0.weight"):
        moso.score(start, DOUBLES, recorder.trajectory)


def test_frozen_parameters_that_change_all_the_same_are_written(tmp_path):
    model = network()
    model.body.requires_grad_(False)
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    recorder = every_step(tmp_path, 3, trainable_only=True)
    recorder.attach(model, optimizer)
    states = []
    for _ in range(3):
        train(model, optimizer, steps=1)
        states.append(state_now(model))
        with torch.no_grad():
            model.body[0].bias += 0.1  # as a moving average of other weights does
    points = [(state, rates_of(point)) for state, point in zip(states, recorder.trajectory, strict=True)]
    # The network that is given still has the first bias.
    model.load_state_dict(states[0])
    expected = brute_force(network(), points, INPUTS.double(), LABELS, 3)
    close(moso.score(model, DOUBLES, recorder.trajectory), expected)
