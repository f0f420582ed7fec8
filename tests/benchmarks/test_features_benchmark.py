"""The benchmark of features: the plain loop learns, data is what was asked for, the page says what its file says."""

import json
import sys

import numpy as np
import pytest
import torch

from benchmarks.features import turns
from benchmarks.features.__main__ import RESULTS, main
from benchmarks.features.made_up import write_features
from moso.models import build_model
from moso.training.recipe import load_recipe

SMALL = ["--rows", "200", "--test-rows", "50", "--width", "64", "--classes", "3", "--epochs", "6", "--partitions", "2"]


def test_features_are_written_once_and_hold_a_class(tmp_path):
    write_features(tmp_path, 300, 400, 3, "float16", 90)
    train, labels = np.load(tmp_path / "train.npy"), np.load(tmp_path / "train_labels.npy")
    assert (train.dtype, train.shape, labels.shape) == (np.float16, (300, 400), (300,))
    centres = np.stack([train[labels == one].astype(np.float64).mean(0) for one in range(3)])
    test, answers = np.load(tmp_path / "test.npy").astype(np.float64), np.load(tmp_path / "test_labels.npy")
    assert (np.argmax(test @ centres.T - (centres**2).sum(1) / 2, axis=1) == answers).mean() > 0.6
    before = (tmp_path / "train.npy").stat().st_mtime_ns
    write_features(tmp_path, 300, 400, 3, "float16", 90)
    assert (tmp_path / "train.npy").stat().st_mtime_ns == before


def test_the_plain_loop_learns(tmp_path):
    write_features(tmp_path, 300, 400, 3, "float32")
    inputs, labels = (torch.from_numpy(np.load(tmp_path / f"train{name}.npy")) for name in ("", "_labels"))
    model = build_model("linear", (400,), 3, seed=0)
    recipe = load_recipe("linear-probe").surrogate.changed(epochs=10)
    before = turns._plain_test(model, inputs, labels)
    turns.plain_loop(model, inputs, labels, recipe)
    assert turns._plain_test(model, inputs, labels) > max(0.9, before)


def test_both_take_turns_and_ratios_are_theirs():
    said = []
    found = [turns.taken(lambda: said.append("moso"), lambda: said.append("plain"), turn) for turn in range(2)]
    assert said == ["moso", "plain", "plain", "moso"]
    assert set(found[0]) == {"moso", "plain"}
    given = [{"moso": (3.0, one), "plain": (2.0, 1.0)} for one in (1.2, 1.0, 4.0)]
    row = turns.summary(given)
    assert (row["ratio"], row["lowest"], row["highest"], row["wall_ratio"]) == (1.2, 1.0, 4.0, 1.5)
    assert row["moso_processor_seconds"] == pytest.approx(6.2)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from Linux's /proc")
def test_the_page_says_what_its_file_says(tmp_path, monkeypatch):
    monkeypatch.setenv("MOSO_CACHE", str(tmp_path))  # the benchmark sets its own; this puts it back
    main([*SMALL, "--parts", "training", "--turns", "1", "--folder", str(tmp_path / "data"), "--out", str(tmp_path)])
    found, page = json.loads((tmp_path / RESULTS).read_text()), (tmp_path / "features.md").read_text()
    assert len(found["training"]["rows"]) == 5
    for name, row in found["training"]["rows"].items():
        assert f"| {name} | {row['ratio']:.2f} | " in page
    assert "200 x 64 features, 3 classes" in page
