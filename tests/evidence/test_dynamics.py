"""Training dynamics: what is recorded is what training computed, to the byte after any interruption."""

import numpy as np
import pytest
import torch
from torch import nn

from moso.data.samples import StoredSamples
from moso.evidence.dynamics import UNSEEN, Dynamics, DynamicsRecorder
from moso.evidence.outputs import COLUMNS, describe
from moso.gradients import cross_entropy
from moso.randomness import seeded
from moso.training.in_run import InRun
from moso.training.loop import AfterStep, Checkpoints, StepPlan, TrainingData, train
from moso.training.recipe import TrainingRecipe
from moso.training.recording import RecordDynamics
from refusals import refusal

RECIPE = TrainingRecipe(
    epochs=4, batch_size=16, learning_rate=0.1, schedule="cosine", weight_decay=1e-3, augmentation="crop-flip"
)
COUNT, CLASSES = 50, 3
LABELS = np.arange(COUNT) % CLASSES


def data(kept=None) -> TrainingData:
    images = np.random.default_rng(0).integers(0, 255, (COUNT, 1, 8, 8)).astype(np.uint8)
    samples = StoredSamples.from_arrays(images, LABELS)
    positions = np.arange(COUNT) if kept is None else kept
    return TrainingData(samples.training_view(RECIPE.augmentation, 0), positions, samples.keys)


def network() -> nn.Module:
    with seeded(0, "test"):
        layers = (nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2))
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(256, CLASSES))


def recorder(folder, columns=tuple(COLUMNS)) -> DynamicsRecorder:
    return DynamicsRecorder(folder, columns, LABELS, RECIPE.epochs, CLASSES)


def stored(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_recorded_is_what_training_computed(tmp_path):
    seen, order = [], []

    def loss(model, batch):
        logits = model(batch[0])
        seen.append(logits.detach().double().numpy())
        return nn.functional.cross_entropy(logits, batch[1], reduction="none")

    plan = data()
    for epoch in range(RECIPE.epochs):
        order += [(epoch, batch) for batch in plan.epoch_batches(RECIPE.batch_size, epoch, 0)]
    train(network(), StepPlan(plan, RECIPE, seed=0), loss=loss, callbacks=[RecordDynamics(recorder(tmp_path))])
    found = Dynamics.open(tmp_path)
    assert (found.epochs, found.samples, set(found.columns)) == (4, COUNT, set(COLUMNS))
    before: dict[int, np.ndarray] = {}
    for (epoch, positions), logits in zip(order, seen, strict=True):
        for place, position in enumerate(positions.tolist()):
            row, label = logits[place : place + 1], LABELS[position : position + 1]
            expected = describe(row, label, COLUMNS, before.get(position))
            for name, value in expected.items():
                np.testing.assert_allclose(
                    found.column(name)[epoch, position], value[0], rtol=1e-4, atol=1e-6, err_msg=name
                )
            before[position] = row - np.log(np.exp(row).sum())


@pytest.mark.parametrize(
    ("stops", "seconds"), [([1], 0), ([4], 1e9), ([6, 7], 1e9), ([5, 9], 0), ([3, 7, 8, 12], 0), ([10], 1e9), ([15], 0)]
)
def test_interrupted_and_resumed_the_files_are_the_same_bytes(tmp_path, stops, seconds):
    class Interruption(Exception):
        pass

    train(network(), StepPlan(data(), RECIPE, seed=3), callbacks=[RecordDynamics(recorder(tmp_path / "whole"))])
    checkpoints = Checkpoints(tmp_path / "position", seconds=seconds)
    for stop in stops:

        def interrupt(run, step, stop=stop):
            if step.number > stop:
                raise Interruption

        callbacks = [RecordDynamics(recorder(tmp_path / "again")), AfterStep(interrupt), checkpoints]
        with pytest.raises(Interruption):
            train(network(), StepPlan(data(), RECIPE, seed=3), callbacks=callbacks)
        assert not (tmp_path / "again" / "dynamics.json").exists()
    callbacks = [RecordDynamics(recorder(tmp_path / "again")), checkpoints]
    train(network(), StepPlan(data(), RECIPE, seed=3), callbacks=callbacks)
    assert stored(tmp_path / "again") == stored(tmp_path / "whole")
    # Killed after the last update and before anybody noted it: the run goes on from its last position.
    callbacks = [RecordDynamics(recorder(tmp_path / "again")), checkpoints]
    train(network(), StepPlan(data(), RECIPE, seed=3), callbacks=callbacks)
    assert stored(tmp_path / "again") == stored(tmp_path / "whole")


def test_recording_does_not_change_the_training(tmp_path):
    plain, recorded = network(), network()
    history = train(plain, StepPlan(data(), RECIPE, seed=0))
    assert history == train(recorded, StepPlan(data(), RECIPE, seed=0), callbacks=[RecordDynamics(recorder(tmp_path))])
    for one, other in zip(plain.state_dict().values(), recorded.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert not recorded._forward_hooks


def test_a_part_of_the_data_leaves_the_others_unseen(tmp_path):
    kept = np.arange(0, COUNT, 2)
    train(
        network(),
        StepPlan(data(kept), RECIPE, seed=0),
        callbacks=[RecordDynamics(recorder(tmp_path, ["probability", "correct"]))],
    )
    found = Dynamics.open(tmp_path)
    assert np.isfinite(found.column("probability")[:, kept]).all()
    assert np.isnan(found.column("probability")[:, 1::2]).all()
    assert (found.column("correct")[:, 1::2] == UNSEEN).all()
    assert set(np.unique(found.column("correct")[:, kept])) <= {0, 1}


def test_columns_that_were_there_before_stay(tmp_path):
    train(network(), StepPlan(data(), RECIPE, seed=0), callbacks=[RecordDynamics(recorder(tmp_path, ["margin"]))])
    train(network(), StepPlan(data(), RECIPE, seed=0), callbacks=[RecordDynamics(recorder(tmp_path, ["kl"]))])
    assert Dynamics.open(tmp_path).columns == ("kl", "margin")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dynamics.json", "kl.npy", "margin.npy"]


def test_collecting_in_run_terms_at_the_same_time_changes_no_column(tmp_path):
    train(network(), StepPlan(data(), RECIPE, seed=0), callbacks=[RecordDynamics(recorder(tmp_path / "one"))])
    collecting = InRun(np.arange(COUNT), np.array([8, 12]), 4, lambda terms: None)
    callbacks = [collecting, RecordDynamics(recorder(tmp_path / "two"))]
    train(network(), StepPlan(data(), RECIPE, seed=0), callbacks=callbacks)
    for name in COLUMNS:
        one, two = (Dynamics.open(tmp_path / folder).column(name) for folder in ("one", "two"))
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def test_a_run_that_stops_early_has_the_rates_of_the_whole(tmp_path):
    whole, early = [], []
    plan = StepPlan(data(), RECIPE, seed=0)
    train(network(), plan, callbacks=[AfterStep(lambda run, step: whole.append(step.rate))])
    seen = AfterStep(lambda run, step: early.append(step.rate))
    history = train(network(), plan, callbacks=[seen], stop_after=8)
    assert early == whole[:8]
    assert len(history.loss) == 2


def test_numbers_to_predict_and_unknown_columns_get_one_clear_sentence(tmp_path):
    with refusal("classes-required"):
        DynamicsRecorder(tmp_path, ["margin"], np.zeros(3, dtype=int), 2, classes=0)
    with refusal("unknown-name", "magrin"):
        recorder(tmp_path, ["magrin"])
    with refusal("stage-incomplete"):
        Dynamics.open(tmp_path)
    train(
        network(),
        StepPlan(data(), RECIPE, seed=0),
        loss=cross_entropy,
        callbacks=[RecordDynamics(recorder(tmp_path, ["margin"]))],
    )
    with refusal("evidence-missing", "kl"):
        Dynamics.open(tmp_path).column("kl")
