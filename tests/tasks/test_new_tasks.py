"""A new task is one class: these two are known to nothing but this file, and go through a whole run."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn

import moso
from moso.data.samples import StoredSamples
from moso.models import build_model
from moso.report.page.content import gather
from moso.report.page.page import render
from moso.report.page.sample_preview import SamplePreview
from moso.results.originals import Originals
from moso.tasks import Classification, Measure, Metric, Task
from refusals import refusal

FAST = {"recipe": "table", "epochs": 6, "time_steps": 2, "partitions": 2}


@dataclass(frozen=True, kw_only=True)
class Ordinal(Classification):
    """Classes in an order: one output per threshold between two of them."""

    name: ClassVar[str] = "ordinal"

    @property
    def outputs(self) -> int:
        return len(self.classes) - 1

    def losses(self, model, batch):
        inputs, levels = batch
        above = (levels[:, None] > torch.arange(self.outputs, device=levels.device)).float()
        return F.binary_cross_entropy_with_logits(model(inputs), above, reduction="none").mean(1)

    def usual_metric(self, answers):
        def near(model, batch):
            return ((model(batch[0]) > 0).sum(1) - batch[1]).abs() <= 1

        return Metric(Measure("within one"), near)


@dataclass(frozen=True, kw_only=True)
class Segmentation(Task):
    """A class per pixel."""

    name: ClassVar[str] = "segmentation"
    answers_survive_crops: ClassVar[bool] = False

    def losses(self, model, batch):
        images, masks = batch
        return F.cross_entropy(model(images), masks, reduction="none").flatten(1).mean(1)

    def usual_metric(self, answers):
        def right(model, batch):
            return (model(batch[0]).argmax(1) == batch[1]).flatten(1).double().mean(1)

        return Metric(Measure("pixels right"), right)

    def read(self, answers):
        masks = np.asarray(answers, dtype=np.int64)
        return replace(self, width=(2, *masks.shape[1:])), masks

    def cells(self, targets):
        return pa.array([f"{mask.mean():.0%} object" for mask in targets])

    def preview(self, samples, position):
        outlined = samples.picture(position).convert("RGB")
        outlined.paste((255, 0, 0), mask=Image.fromarray((samples.targets[position] * 255).astype(np.uint8)))
        return outlined


def levels(count: int) -> tuple[np.ndarray, np.ndarray]:
    rows = np.random.default_rng(0).normal(size=(count, 5)).astype(np.float32)
    return rows, np.digitize(rows[:, 0], [-0.7, 0, 0.7])


def shapes(count: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    masks = draw.random((count, 8, 8)) < np.linspace(0.1, 0.6, count)[:, None, None]
    return (masks * 150 + draw.integers(0, 60, masks.shape)).astype(np.uint8)[:, None], masks.astype(np.int64)


def test_an_ordinal_task_is_partitioned_trained_scored_selected_proved_and_shown(tmp_path):
    rows, answers = levels(160)
    pruned = moso.prune(
        (rows[:120], answers[:120]), ratio=0.5, test_set=(rows[120:], answers[120:]), task=Ordinal(), model="mlp-w8",
        out=tmp_path / "run", **{**FAST, "epochs": 40, "learning_rate": 0.1},
    )  # fmt: skip
    run = moso.Run.open(tmp_path / "run")
    # Samples belong to classes, so each partition has its share of each, and classes of unequal size keep their mix.
    assert all(np.ptp(np.bincount(answers[part]) / np.bincount(answers[:120])) < 0.1 for part in run.partitions())
    assert np.ptp(np.bincount(answers[pruned.kept]) / np.bincount(answers[:120])) < 0.05
    assert run.build_model()(torch.zeros(2, 5)).shape == (2, 3)
    full = next(row for row in run.evaluation() if row["method"] == "full")
    assert (full["metric"], full["unit"], full["better"]) == ("within one", "%", "higher")
    assert full["value"] > 90
    assert run.task.classes == ("0", "1", "2", "3")
    assert "4 classes" in render(run)


@pytest.mark.parametrize("as_dataset", [False, True])
def test_a_dense_task_is_partitioned_trained_scored_selected_proved_and_shown(tmp_path, as_dataset):
    images, masks = shapes(60)
    train, test = (images[:40], masks[:40]), (images[40:], masks[40:])
    if as_dataset:
        scaled = (torch.from_numpy(images) - 100.0) / 75
        pairs = list(zip(scaled, torch.from_numpy(masks), strict=True))
        train, test = pairs[:40], pairs[40:]
    pruned = moso.prune(
        train, ratio=0.5, test_set=test, task=Segmentation(), model=lambda: nn.Conv2d(1, 2, 3, padding=1),
        out=tmp_path / "run", augmentation="none", **{**FAST, "epochs": 20, "learning_rate": 0.1},
    )  # fmt: skip
    run = moso.Run.open(tmp_path / "run")
    assert not run.configuration.by_class
    assert run.selections()[0].selector == "top"
    assert pruned.scores[pruned.kept].min() >= np.delete(pruned.scores, pruned.kept).max()
    full = next(row for row in run.evaluation() if row["method"] == "full")
    assert full["metric"] == "pixels right"
    assert full["value"] > 90
    assert run.task.outputs == (2, 8, 8)
    # What the task says of an answer is what the page shows of it.
    assert run.table()["label"].to_pylist() == [f"{mask.mean():.0%} object" for mask in masks[:40]]
    assert gather(run).columns["answers"].read()[3] == f"{masks[3].mean():.0%} object"
    assert "no classes" in render(run)


def test_scores_of_a_dense_task_are_those_of_brute_force():
    images, masks = shapes(12)
    model = nn.Conv2d(1, 2, 3, padding=1).double()
    task, targets = Segmentation().read(masks)
    rows = []
    for image, mask in zip(torch.from_numpy(images).double() / 255, torch.from_numpy(targets), strict=True):
        loss = F.cross_entropy(model(image[None]), mask[None])
        rows.append(torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))]))
    gradients = torch.stack(rows)
    others = (gradients.sum(0) - gradients) / 11
    expected = (9 / 12 * 0.1 * (others * gradients).sum(1)).numpy()
    data = torch.utils.data.TensorDataset(torch.from_numpy(images).double() / 255, torch.from_numpy(targets))
    found = moso.score(model, data, [(model.state_dict(), 0.1)], total_steps=9, loss=task.loss, batch_size=5)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_loss_of_ones_own_takes_the_place_of_the_tasks(tmp_path):
    images, masks = shapes(20)
    asked = []

    def loss(model, batch):
        asked.append(tuple(batch[1].shape[1:]))
        return Segmentation().losses(model, batch)

    pairs = list(zip(torch.from_numpy(images) / 255, torch.from_numpy(masks), strict=True))
    pruned = moso.prune(
        pairs, ratio=0.5, task=Segmentation(), loss=loss, model=lambda: nn.Conv2d(1, 2, 3, padding=1),
        augmentation="none", **FAST,
    )  # fmt: skip
    assert set(asked) == {(8, 8)}
    assert pruned.run.table()["label"].to_pylist()[0] == f"{masks[0].mean():.0%} object"


def test_the_preview_is_the_tasks():
    images, masks = shapes(4)
    samples = StoredSamples.from_arrays(images, masks, Segmentation())
    shown = SamplePreview(Originals(samples), np.arange(4))
    assert shown.kind == "pictures"
    pixel = tuple(int(place) for place in np.argwhere(masks[2])[0][::-1])
    assert shown.picture(2).getpixel(pixel) == (255, 0, 0)


def test_a_picture_is_not_cropped_away_under_its_mask():
    images, masks = shapes(20)
    with refusal("settings-conflict", "crop-flip", "segmentation"):
        moso.prune(
            (images, masks), ratio=0.5, task=Segmentation(), model=lambda: nn.Conv2d(1, 2, 3, padding=1),
            augmentation="crop-flip", **FAST,
        )  # fmt: skip


def test_a_network_by_name_gives_the_shape_that_the_task_asks_for():
    from moso.models import check_model

    check_model(nn.Conv2d(1, 2, 3, padding=1), "mine", (1, 8, 8), classes=(2, 8, 8))
    with refusal("model-unsuitable", "(2, 10)", 2, "(2, 2, 8, 8)"):
        check_model(build_model("linear", (1, 8, 8), classes=10, seed=0), "mine", (1, 8, 8), classes=(2, 8, 8))
