"""Laws of the training loop: addressed, resumable to the bit, the optimiser it says it is."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from moso.data.mapped import MappedReader
from moso.data.readers import MemoryReader
from moso.data.samples import StoredSamples
from moso.data.views import Normalisation
from moso.evidence import Recorder
from moso.randomness import seeded
from moso.training.loop import AfterStep, Callback, Checkpoints, StepPlan, TrainingData, predict, train
from moso.training.recipe import TrainingRecipe
from moso.training.recording import RecordTrajectory
from refusals import refusal

RECIPE = TrainingRecipe(
    epochs=4, batch_size=16, learning_rate=0.05, schedule="cosine", nesterov=True, weight_decay=1e-3,
    clip_norm=1.0, augmentation="crop-flip", warmup_epochs=1.0,
)  # fmt: skip


def data(recipe=RECIPE, seed=0, count=50, kept=None) -> TrainingData:
    images = np.random.default_rng(0).integers(0, 255, (count, 1, 8, 8)).astype(np.uint8)
    samples = StoredSamples.from_arrays(images, np.arange(count) % 3)
    positions = np.arange(count) if kept is None else kept
    return TrainingData(samples.training_view(recipe.augmentation, seed), positions, samples.keys)


def network() -> nn.Module:
    with seeded(0, "test"):
        return nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Flatten(),
            nn.Linear(256, 3),
        )


def same(one: nn.Module, other: nn.Module) -> bool:
    states = one.state_dict(), other.state_dict()
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


class Interruption(Exception):
    pass


ADAMW = {"optimizer": "adamw", "nesterov": False, "learning_rate": 1e-3}


@pytest.mark.parametrize("changes", [{}, {"channels_last": True}, ADAMW, {**ADAMW, "channels_last": True}])
@pytest.mark.parametrize("stops", [[1], [4], [5, 9], [2, 3, 11]])
def test_interrupted_and_resumed_the_weights_are_the_same_bits(tmp_path, stops, changes):
    recipe = RECIPE.changed(**changes)
    whole = network()
    plan = StepPlan(data(recipe), recipe, seed=3)
    history = train(whole, plan)
    checkpoints = Checkpoints(tmp_path / "position", seconds=0)
    for stop in stops:

        def interrupt(run, step, stop=stop):
            if step.number > stop:
                raise Interruption

        with pytest.raises(Interruption):
            train(network(), plan, callbacks=[AfterStep(interrupt), checkpoints])
    resumed = network()
    again = train(resumed, plan, callbacks=[checkpoints])
    assert same(whole, resumed)
    assert history == again
    assert len(history.loss) == 4


def test_the_global_generators_neither_matter_nor_move():
    one, two = network(), network()
    train(one, StepPlan(data(), RECIPE, seed=0))
    torch.manual_seed(99)
    before = torch.random.get_rng_state()
    train(two, StepPlan(data(), RECIPE, seed=0))
    assert same(one, two)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("name", "theirs_is"),
    [
        ("sgd", lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-2)),
        ("adamw", lambda parameters: torch.optim.AdamW(parameters, lr=0.1, weight_decay=1e-2)),
    ],
)
def test_it_is_torchs_own_optimiser(name, theirs_is):
    """Against a plain loop over the same batches."""
    recipe = TrainingRecipe(
        optimizer=name, epochs=2, batch_size=10, learning_rate=0.1, schedule="constant", weight_decay=1e-2
    )  # fmt: skip
    ours = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    theirs = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    theirs.load_state_dict(ours.state_dict())
    source = data(recipe)
    train(ours, StepPlan(source, recipe, seed=5))
    optimizer = theirs_is(theirs.parameters())
    for epoch in range(2):
        for positions in source.epoch_batches(10, epoch, 5):
            inputs, labels = source.view.batch(positions, epoch)
            optimizer.zero_grad()
            nn.functional.cross_entropy(theirs(inputs), labels).backward()
            optimizer.step()
    assert same(ours, theirs)


def test_every_sample_is_seen_once_an_epoch_in_another_order():
    source = data()
    epochs = [np.concatenate(source.epoch_batches(16, epoch, 0)) for epoch in range(2)]
    assert all(sorted(epoch.tolist()) == list(range(50)) for epoch in epochs)
    assert epochs[0].tolist() != epochs[1].tolist()


def test_the_order_of_a_sample_does_not_depend_on_who_else_is_kept():
    kept = np.arange(0, 50, 2)
    whole = np.concatenate(data().epoch_batches(50, 1, 0))
    part = np.concatenate(data(kept=kept).epoch_batches(50, 1, 0))
    assert [position for position in whole.tolist() if position % 2 == 0] == part.tolist()


def test_a_plan_walked_backwards_or_in_parts_has_the_same_steps():
    plan = StepPlan(data(), RECIPE, seed=3, total_steps=11)
    whole = list(plan.walk(range(1, 12)))
    assert [(step.number, step.epoch) for step, _ in whole][3:5] == [(4, 0), (5, 1)]
    back = list(plan.walk(range(11, 0, -1)))[::-1]
    parts = [*plan.walk(range(1, 4)), *plan.walk(range(4, 12))]
    for (step, batch), *others in zip(whole, back, parts, strict=True):
        for other, images in others:
            assert (other.number, other.epoch, other.rate) == (step.number, step.epoch, step.rate)
            assert other.positions.tolist() == step.positions.tolist()
            assert torch.equal(images[0], batch[0])
    with refusal("setting-invalid", 0):
        StepPlan(data(), RECIPE, seed=3, total_steps=0)


def test_equal_steps_means_as_many_updates_as_the_full_data_gets():
    seen = []
    plan = StepPlan(data(kept=np.arange(10)), RECIPE, seed=0, total_steps=16)
    train(network(), plan, callbacks=[AfterStep(lambda run, step: seen.append((step.number, step.epoch, step.rate)))])
    assert [step for step, _, _ in seen] == list(range(1, 17))
    assert seen[-1][1] == 15  # one batch of ten an epoch
    assert seen[-1][2] == pytest.approx(0.0, abs=1e-3)
    assert max(rate for _, _, rate in seen) == pytest.approx(0.05)


def test_the_loss_goes_down_and_predictions_follow():
    recipe = TrainingRecipe(epochs=30, batch_size=25, learning_rate=0.1, schedule="one-cycle")
    model, source = network(), data(recipe)
    history = train(model, StepPlan(source, recipe, seed=0))
    assert history.loss[-1] < history.loss[0] / 2
    outputs = predict(model, source.view, np.arange(50), batch_size=7)
    assert (outputs.argmax(1).numpy() == np.arange(50) % 3).mean() > 0.8


def test_low_precision_trains_too():
    model = network()
    recipe = RECIPE.changed(precision="bfloat16")
    history = train(model, StepPlan(data(recipe), recipe, seed=0))
    assert np.isfinite(history.loss).all()
    assert next(model.parameters()).dtype == torch.float32


def test_a_position_of_another_network_is_refused(tmp_path):
    checkpoints = Checkpoints(tmp_path / "position", seconds=0)
    plan = StepPlan(data(), RECIPE, seed=0)

    def interrupt(run, step):
        if step.number > 3:
            raise Interruption

    with pytest.raises(Interruption):
        train(network(), plan, callbacks=[AfterStep(interrupt), checkpoints])
    with refusal("checkpoint-mismatch", "(4,)", "(3, 64)"):
        train(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), plan, callbacks=[checkpoints])


def features(tmp_path, kind, mapped) -> TrainingData:
    """Numbers of a type in a memory map, or the same numbers as float32 in memory."""
    numbers = np.random.default_rng(0).standard_normal((90, 20)).astype(kind)
    if mapped:
        np.save(tmp_path / "x.npy", numbers)
        reader = MappedReader(np.load(tmp_path / "x.npy", mmap_mode="r"))
    else:
        reader = MemoryReader(numbers.astype(np.float32))
    samples = replace(StoredSamples.from_arrays(numbers, np.arange(90) % 3), reader=reader)
    samples = samples.normalised(Normalisation.measure(reader))
    return TrainingData(samples.training_view("none", 0), np.arange(0, 90, 2), samples.keys)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [7, 45])
def test_from_a_memory_map_or_from_memory_the_bits_are_the_same(tmp_path, kind, workers, batch_size):
    recipe = TrainingRecipe(
        epochs=3, batch_size=batch_size, learning_rate=0.1, schedule="cosine", weight_decay=1e-3, clip_norm=0.5
    )
    found = []
    for mapped in (False, True):
        with seeded(0, "test"):
            model = nn.Sequential(nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 3))
        train(model, StepPlan(features(tmp_path, kind, mapped), recipe, 1), loader_workers=workers if mapped else 0)
        found.append(model)
    assert same(*found)


def test_a_step_that_is_not_recorded_does_not_walk_through_the_network(tmp_path):
    walks = []

    class Watched(nn.Linear):
        def named_parameters(self, *arguments, **more):
            walks.append(1)
            return super().named_parameters(*arguments, **more)

    counts = []
    for epochs in (2, 20):
        recipe = TrainingRecipe(epochs=epochs, batch_size=5, learning_rate=0.1, schedule="constant")
        plan = StepPlan(features(tmp_path, np.float32, mapped=False), recipe, 0)
        recorder = Recorder(tmp_path / str(epochs), total_steps=plan.total, samples=2)
        walks.clear()
        train(Watched(20, 3), plan, callbacks=[RecordTrajectory(recorder), Checkpoints(tmp_path / "position")])
        assert len(recorder.trajectory) == 2
        counts.append(len(walks))
    assert counts[0] == counts[1]


def test_callbacks_are_called_in_order_where_they_have_a_method():
    said = []

    class First(Callback):
        def losses(self, run, step, loss):
            said.append(("losses", step.number))
            return loss

        def after_step(self, run, step):
            said.append(("after", step.number))

    class Second(Callback):
        def after_backward(self, run, step):
            assert all(one.grad is not None for one in run.model.parameters())
            said.append(("backward", step.number))

    class Inherits(First):
        pass

    recipe = RECIPE.changed(epochs=1, batch_size=25, warmup_epochs=0.0)
    train(network(), StepPlan(data(recipe), recipe, 0), callbacks=[Callback(), First(), Second(), Inherits()])
    one = [("losses", 1), ("losses", 1), ("backward", 1), ("after", 1), ("after", 1)]
    assert said == [*one, *((what, 2) for what, _ in one)]
