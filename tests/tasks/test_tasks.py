"""The tasks there are, and what a run directory holds of them."""

import json
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomli_w
import torch
import torch.nn.functional as F
from sklearn.metrics import hamming_loss
from torch import nn

import moso
from moso.configuration import Configuration
from moso.report.page.page import render
from moso.tasks import Classification, MultiLabel, OwnTask, Regression, find_task, fitting_task, noted_task
from moso.tasks.metric import ACCURACY
from refusals import refusal

FAST = {"recipe": "table", "epochs": 3, "time_steps": 2, "partitions": 1}
DRAW = np.random.default_rng(0)
ROWS = DRAW.normal(size=(60, 6)).astype(np.float32)
MARKS = (ROWS[:, :3] > 0).astype(np.float32)


@pytest.mark.parametrize(
    "task",
    [
        Classification(classes=("a", "b")),
        Regression(width=3),
        MultiLabel(width=4),
        OwnTask(classes=("x", "y"), width=(2, 8, 8)),
    ],
)
def test_a_task_is_rebuilt_from_its_note(task):
    noted = json.loads(json.dumps(task.note()))
    assert type(noted_task(noted)) is type(task)
    assert noted_task(noted).note() == task.note()


def test_notes_from_before_tasks_had_names_are_read():
    assert noted_task({"classes": ["a", "b"], "outputs": 2, "numbers": False}) == Classification(
        classes=("a", "b"), width=2
    )
    assert noted_task({"classes": [], "outputs": 2, "numbers": True}) == Regression(width=2)
    assert noted_task({"classes": [], "outputs": 0, "numbers": False}) == OwnTask()
    assert not noted_task({}).by_class


def test_the_users_functions_take_the_place_of_the_tasks():
    def loss(model, batch):
        return model(batch[0])[:, 0]

    assert Classification(own_loss=loss).loss is loss
    assert Classification(own_loss=loss).metric(np.zeros(2)).measure == ACCURACY
    assert Regression(own_loss=loss).metric(np.zeros(2)).per_sample is loss
    assert (fitting_task([0, 1], loss), fitting_task([0.5, 1], loss), fitting_task(None, loss)) == (
        Classification(own_loss=loss), Regression(own_loss=loss), OwnTask(own_loss=loss)
    )  # fmt: skip


def test_noise_is_for_classes():
    keys = np.arange(100, dtype=np.uint64)
    labels, drawn = Classification(classes=("a", "b", "c")).noisy(np.zeros(100, dtype=np.int64), keys, 0.5, 0)
    assert drawn.sum() == 50
    assert not labels[~drawn].any()
    with refusal("classes-required", "regression"):
        Regression().noisy(np.zeros(100), keys, 0.5, 0)


def test_several_labels_are_judged_by_the_share_that_is_right():
    model, batch = nn.Linear(6, 3), (torch.from_numpy(ROWS), torch.from_numpy(MARKS))
    task, marks = MultiLabel().read(MARKS)
    right = task.metric(marks).per_sample(model, batch)
    guessed = (model(batch[0]) > 0).int().numpy()
    assert float(right.mean()) == pytest.approx(1 - hamming_loss(MARKS.astype(int), guessed))
    expected = F.binary_cross_entropy_with_logits(model(batch[0]), batch[1], reduction="none").mean(1)
    torch.testing.assert_close(task.loss(model, batch), expected)
    with refusal("label-invalid", 0, 1):
        task.read(MARKS + 1)


def test_several_labels_are_pruned_and_proved_by_name():
    pruned = moso.prune(
        (ROWS[:40], MARKS[:40]), ratio=0.5, test_set=(ROWS[40:], MARKS[40:]), task="multi-label", model="linear",
        **{**FAST, "epochs": 30, "learning_rate": 0.1},
    )  # fmt: skip
    full = next(row for row in pruned.run.evaluation() if row["method"] == "full")
    assert full["metric"] == "labels right"
    assert full["value"] > 80
    assert pruned.run.task.learned == "3 labels, each yes or no"
    assert "3 labels, each yes or no" in render(pruned.run)


def test_several_labels_come_from_a_column_of_lists(tmp_path):
    marks = pa.FixedSizeListArray.from_arrays(pa.array(MARKS.reshape(-1)), 3)
    pq.write_table(pa.table({"x": ROWS[:, 0], "y": ROWS[:, 1], "tags": marks}), tmp_path / "a.parquet")
    name = f"parquet:{tmp_path / 'a.parquet'}?target=tags"
    data = moso.data.open_dataset(name, task="multi-label")
    assert (data.task.name, data.task.outputs) == ("multi-label", 3)
    # Marks stay 0 and 1; numbers to predict are standardised.
    assert set(np.unique(data.train.answers)) == {0, 1}
    configuration = Configuration.resolve({"dataset": name, "task": "multi-label"})
    assert (configuration.task, configuration.by_class) == ("multi-label", False)
    with refusal("settings-conflict", "classification", "regression"):
        moso.data.open_dataset("digits", task="regression")
    with refusal("unknown-name", "regresion", "regression"):
        find_task("regresion")


def test_one_class_makes_no_classifier():
    with refusal("too-few-classes", 2, 1):
        moso.prune((ROWS, np.zeros(60, dtype=int)), ratio=0.5, model="linear", **FAST)


@pytest.mark.parametrize(("dataset", "classless"), [("digits", False), ("diabetes", True), ("custom", True)])
def test_configurations_from_before_tasks_had_names_are_read(dataset, classless):
    old = Configuration.resolve({"dataset": dataset, "classless": classless})
    assert old.by_class is not classless
    assert Configuration.resolve({"dataset": dataset, "by_class": not classless}) == old


def test_a_run_from_before_tasks_had_names_opens_and_goes_on(tmp_path):
    targets = ROWS[:, 0] * 2
    settings = {"ratio": 0.5, "model": "mlp-w8", "loss": moso.squared_error, "out": tmp_path, **FAST}
    before = moso.prune((ROWS, targets), **settings)
    toml = tomllib.loads((tmp_path / "run.toml").read_text())
    del toml["task"]
    (tmp_path / "run.toml").write_text(tomli_w.dumps({**toml, "classless": not toml.pop("by_class")}))
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    del manifest["dataset"]["task"], manifest["checksum"]
    manifest["dataset"]["numbers"] = True
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    run = moso.Run.open(tmp_path)
    assert run.task.learned == "1 number to predict"
    assert run.build_model()(torch.zeros(2, 6)).shape == (2, 1)
    assert "1 number to predict" in render(run)
    again = moso.prune((ROWS, targets), **settings)
    np.testing.assert_array_equal(again.kept, before.kept)
