"""Replay: the recorded run bit for bit, in pieces, after a kill; and what is refused, in one sentence."""

import copy

import numpy as np
import pytest
import torch
from problems import HARD, digits, network, recipe, recorded
from torch import nn

from moso.adjoint import Replay, ReplayRecorder, adjoint_sweep, read_adjoint, write_adjoint
from moso.data.samples import StoredSamples
from moso.gradients import SampleRisk, class_weights, cross_entropy
from moso.training.loop import AfterStep, StepPlan, TrainingData, train
from refusals import refusal

DROPPING = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(144, 10)
)
RECIPES = {
    "sgd": {**HARD, "batch_size": 7},
    "channels last, augmented": {**HARD, "batch_size": 7, "channels_last": True, "augmentation": "crop-flip"},
    "adamw": {"optimizer": "adamw", "learning_rate": 0.01, "batch_size": 7, "momentum": 0.9},
    "adam": {"optimizer": "adam", "learning_rate": 0.01, "batch_size": 7, "momentum": 0.9, "weight_decay": 0.01},
}


def augmented(count, how) -> TrainingData:
    images = np.random.default_rng(0).integers(0, 255, (count, 1, 8, 8)).astype(np.uint8)
    samples = StoredSamples.from_arrays(images, np.arange(count) % 10)
    return TrainingData(samples.training_view(how.augmentation, 5), np.arange(count), samples.keys)


@pytest.mark.parametrize("settings", RECIPES.values(), ids=RECIPES)
def test_states_come_back_bit_for_bit(settings, tmp_path):
    how = recipe(**settings)
    data, states = augmented(20, how), {}
    replay = recorded(DROPPING, data, how, tmp_path, torch.float32)

    def remember(run, step):
        states[step.number] = {name: value.clone() for name, value in run.model.state_dict().items()}

    train(copy.deepcopy(DROPPING), StepPlan(data, how, seed=5), callbacks=[AfterStep(remember)])
    seen = []
    for stretch in replay.backwards():
        for update in stretch.updates:
            seen.append(update.after.step)
            held = {**update.after.trained, **update.after.buffers}
            assert all(torch.equal(held[name], value) for name, value in states[seen[-1]].items())
    assert seen == list(range(9, 0, -1))


@pytest.mark.parametrize("settings", RECIPES.values(), ids=RECIPES)
def test_the_bytes_do_not_depend_on_how_much_is_held_at_once(settings, tmp_path):
    how = recipe(**settings)
    data = augmented(20, how)
    replay = recorded(DROPPING, data, how, tmp_path, torch.float32)
    small = Replay(tmp_path, replay.start, data, how, 5, 9, replay.loss, memory=1)
    assert adjoint_sweep(replay).change.tobytes() == adjoint_sweep(small).change.tobytes()
    assert not (tmp_path / "scratch").exists()


class Interruption(Exception):
    pass


@pytest.mark.parametrize("stop", [1, 4, 8])
def test_killed_and_resumed_it_ends_with_the_same_bytes(stop, tmp_path):
    replay = recorded(DROPPING, digits(20), recipe(**RECIPES["sgd"]), tmp_path / "run", torch.float32)
    whole = adjoint_sweep(replay, probes=2)

    def interrupt(label, done, total):
        if done > stop:
            raise Interruption

    position = tmp_path / "position"
    with pytest.raises(Interruption):
        adjoint_sweep(replay, probes=2, position=position, seconds=0, progress=interrupt)
    assert position.exists() == (stop >= 3)
    resumed = adjoint_sweep(replay, probes=2, position=position, seconds=0)
    write_adjoint(tmp_path / "whole.npz", whole)
    write_adjoint(tmp_path / "resumed.npz", resumed)
    assert (tmp_path / "whole.npz").read_bytes() == (tmp_path / "resumed.npz").read_bytes()
    assert not position.exists()
    assert (read_adjoint(tmp_path / "whole.npz").scores() == whole.scores()).all()


def test_the_replayed_network_stays_as_it_was(tmp_path):
    replay = recorded(DROPPING, digits(20), recipe(**RECIPES["sgd"]), tmp_path, torch.float32)
    before = {name: value.clone() for name, value in replay.start.state_dict().items()}
    random = torch.random.get_rng_state()
    adjoint_sweep(replay)
    assert all(torch.equal(before[name], value) for name, value in replay.start.state_dict().items())
    assert torch.equal(random, torch.random.get_rng_state())


def test_order_and_names_of_samples_do_not_matter(tmp_path):
    """A part of the data, in any order of its positions, gets the same scores."""
    data, how = digits(30), recipe(batch_size=6, momentum=0.9)
    part = np.array([3, 28, 7, 11, 19, 2, 25, 14])
    one = adjoint_sweep(recorded("tanh", TrainingData(data.view, part, data.keys), how, tmp_path / "one"))
    order = np.argsort(part)
    other = adjoint_sweep(recorded("tanh", TrainingData(data.view, part[order], data.keys), how, tmp_path / "other"))
    assert np.allclose(one.change[order], other.change, rtol=1e-9)


def test_a_risk_is_linear_in_its_weights_and_may_be_a_function(tmp_path):
    data = digits(20)
    replay = recorded("smooth-norm", data, recipe(batch_size=6), tmp_path)
    labels = data.view.batch(data.positions)[1].numpy()
    shares = {int(label): float(label + 1) for label in np.unique(labels)}
    weights = class_weights(labels, shares)
    mixed = adjoint_sweep(replay, SampleRisk(data.view, data.positions, weights, batch_size=7)).change
    parts = [
        share * adjoint_sweep(replay, SampleRisk(data.view, data.positions[labels == label])).change
        for label, share in shares.items()
    ]
    assert np.allclose(mixed, sum(parts), rtol=1e-9)
    batch = data.view.batch(data.positions)
    own = adjoint_sweep(replay, lambda model: replay.loss(model, batch).mean()).change
    assert np.allclose(own, adjoint_sweep(replay).change, rtol=1e-9)


class Restless(nn.Module):
    """A layer that counts its calls where nobody saves them: no run of it can be repeated from the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = nn.Linear(64, 10), 0

    def forward(self, images):
        self.calls += 1
        return self.inner(images.flatten(1)) * (1 + 0.01 * self.calls)


class Hidden(nn.Module):
    """A layer that puts another tensor in the place of its buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(64, 10)
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, images):
        self.mean = 0.5 * self.mean + 0.5 * images.mean()
        return self.inner(images.flatten(1))


def test_a_drift_is_an_error(tmp_path):
    replay = recorded(Restless(), digits(12), recipe(batch_size=4), tmp_path, torch.float32)
    with refusal("not-deterministic", 7, 9):
        adjoint_sweep(replay)


def test_an_update_that_cannot_be_differentiated_as_taken_is_an_error(tmp_path):
    replay = recorded(Hidden(), digits(12), recipe(batch_size=4), tmp_path, torch.float32)
    with refusal("not-deterministic", 9):
        adjoint_sweep(replay)


def test_bad_input_gets_one_sentence(tmp_path):
    data, how = digits(12), recipe(batch_size=4)
    replay = recorded("linear", data, how, tmp_path / "good")
    with refusal("trajectory-incomplete", 9):
        Replay(tmp_path / "none", network("linear"), data, how, 5, 9)
    (tmp_path / "good" / "step-00000003.safetensors").rename(tmp_path / "gone")
    with refusal("trajectory-incomplete", "step-00000003.safetensors"):
        adjoint_sweep(replay)
    (tmp_path / "gone").rename(tmp_path / "good" / "step-00000003.safetensors")
    with refusal("recipe-unsuitable", "float32"):
        Replay(tmp_path / "good", network("linear"), data, how.changed(precision="bfloat16"), 5, 9)
    with refusal("settings-conflict"):
        adjoint_sweep(replay, SampleRisk(data.view, data.positions), probes=2)
    with refusal("setting-invalid", -1):
        adjoint_sweep(replay, probes=-1)
    with refusal("risk-invalid"):
        adjoint_sweep(replay, lambda model: torch.zeros(2))
    with refusal("data-empty"):
        SampleRisk(data.view, np.arange(0))
    with refusal("shape-mismatch", "(3,)"):
        SampleRisk(data.view, data.positions, np.ones(3))
    with refusal("data-empty", 11):
        class_weights(np.arange(3), {11: 1.0})
    (tmp_path / "text.npz").write_text("nothing")
    with refusal("file-damaged", "text.npz"):
        read_adjoint(tmp_path / "text.npz")
    with refusal("checkpoint-mismatch", "step-00000009.safetensors", "(8, 64)"):
        adjoint_sweep(Replay(tmp_path / "good", network("tanh"), data, how, 5, 9, cross_entropy))


def test_a_layer_without_second_derivatives_is_named(tmp_path):
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value.exp()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, gradient):
            return gradient

    class Layer(nn.Module):
        def forward(self, value):
            return Once.apply(value)

    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), Layer())
    replay = recorded(model, digits(12), recipe(batch_size=4), tmp_path)
    with refusal("not-differentiable"):
        adjoint_sweep(replay)


def test_checkpoints_lie_at_the_root_of_the_steps_and_are_few(tmp_path):
    recorder = ReplayRecorder(tmp_path, 100)
    assert recorder.steps == set(range(10, 101, 10))
    assert not recorder.is_complete()
    assert ReplayRecorder(tmp_path, 7, every=3).steps == {3, 6, 7}
