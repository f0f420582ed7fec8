"""Scores and verdict in experiment trackers, read back from what the real packages wrote."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_digits

import moso
from moso.analysis.verdict import verdict_of
from moso.errors import MosoError
from moso.integrations.run_log import RunLog


@pytest.fixture(scope="module")
def pruned():
    digits = load_digits()
    X, y = digits.data.astype(np.float32), digits.target
    return moso.prune(
        (X[:200], y[:200]), test_set=(X[200:300], y[200:300]), ratio=0.4, epochs=3, time_steps=2, partitions=1,
        seeds=2, progress=False,
    )  # fmt: skip


def test_what_is_logged_is_what_the_run_says(pruned):
    found = RunLog.of(pruned)
    assert found.samples.num_rows == 200
    assert np.flatnonzero(found.samples["kept"]).tolist() == pruned.kept.tolist()
    assert found.summary()["verdict"] == str(verdict_of(pruned.run)) == str(pruned.verdict)
    by_hand = {}
    for row in pruned.run.evaluation():
        name = f"{row['metric']}/{row['method']}-{row['selector']}", round(100 * row["ratio"])
        by_hand.setdefault(name, []).append(row["value"])
    assert {(name, step): value for name, step, value in found.curves()} == pytest.approx(
        {name: np.mean(values) for name, values in by_hand.items()}
    )
    assert len(by_hand) == 3  # all data, the method, random selection
    generous = RunLog.of(pruned.run, tolerance=100).summary()
    assert generous["tolerance"] == 100
    assert generous["removable"] == 0.4


@pytest.mark.parametrize(
    ("what", "code"),
    [
        (np.zeros(3), "wrong-type"),
        ({}, "data-empty"),
        ({"moso": [1.0, 2.0], "other": [1.0]}, "length-mismatch"),
        ({"moso": np.zeros((2, 2))}, "length-mismatch"),
    ],
)
def test_what_cannot_be_logged_is_refused(what, code):
    with pytest.raises(MosoError) as caught:
        RunLog.of(what)
    assert caught.value.code == code


def test_scores_that_are_no_numbers_have_no_histogram():
    found = RunLog.of({"herding": [np.nan, np.nan], "moso": [1.0, np.nan]})
    assert list(found.scores) == ["moso"]
    assert found.scores["moso"].tolist() == [1.0]


def test_tensorboard(pruned, tmp_path):
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    from moso.integrations.tensorboard import log

    with SummaryWriter(str(tmp_path)) as writer:
        log(pruned, writer)
        log({"mine": [0.0, 1.0]}, writer)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path), size_guidance={"tensors": 0}).Reload()
    tags = events.Tags()
    assert set(tags["histograms"]) == {f"moso/scores/{name}" for name in [*pruned.run.scores(), "mine"]}
    for name, removed, value in RunLog.of(pruned).curves():
        [event] = events.Scalars(f"moso/{name}")
        assert event.step == removed
        assert event.value == pytest.approx(value, rel=1e-6)
    [text] = events.Tensors("moso/verdict/text_summary")
    assert text.tensor_proto.string_val[0].decode() == "\n\n".join(pruned.verdict.sentences)
    values = pruned.run.scores()["moso-rank"]
    assert events.Histograms("moso/scores/moso-rank")[0].histogram_value.num == len(values)


def test_mlflow(pruned, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    from moso.integrations.mlflow import log

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    with mlflow.start_run() as active:
        log(pruned)
    client = mlflow.MlflowClient()
    run = client.get_run(active.info.run_id)
    assert run.data.tags["moso.verdict"] == pruned.verdict.headline
    assert run.data.tags["moso.method"] == "moso-rank"
    assert run.data.metrics["moso/removable"] == pruned.verdict.removable
    for name, removed, value in RunLog.of(pruned).curves():
        [metric] = client.get_metric_history(run.info.run_id, f"moso/{name}")
        assert (metric.step, metric.value) == (removed, pytest.approx(value))
    folder = tmp_path / "artifacts"
    folder.mkdir()
    client.download_artifacts(run.info.run_id, "moso", str(folder))
    table = pq.read_table(folder / "moso/scores.parquet")
    np.testing.assert_array_equal(table["moso-rank"], pruned.run.scores()["moso-rank"])
    assert (folder / "moso/verdict.txt").read_text() == f"{pruned.verdict}\n"
    assert json.loads((folder / "moso/verdict.json").read_text())["headline"] == pruned.verdict.headline


@pytest.fixture
def offline(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return wandb


def test_weights_and_biases_offline(pruned, tmp_path, offline):
    from moso.integrations.wandb import log

    with offline.init(mode="offline", dir=tmp_path, settings=offline.Settings(console="off")) as run:
        log(pruned)
        summary = dict(run.summary)
        files = run.dir
    assert summary["moso/verdict"] == str(pruned.verdict)
    assert summary["moso/removable"] == pruned.verdict.removable
    found = {}
    for path in (tmp_path / "wandb").rglob("*.table.json"):
        assert str(path).startswith(str(files))
        content = json.loads(path.read_text())
        found[len(content["columns"])] = content
    samples, retrainings = found[max(found)], found[6]
    where = samples["columns"].index("moso-rank")
    assert [row[where] for row in samples["data"]] == pruned.run.scores()["moso-rank"].tolist()
    assert sorted(row[-1] for row in retrainings["data"]) == sorted(row["value"] for row in pruned.run.evaluation())


def test_weights_and_biases_disabled_and_without_a_run(pruned, offline, monkeypatch):
    from moso.integrations.wandb import log

    with offline.init(mode="disabled") as run:
        log(pruned, run, prefix="pruning", rows=10)
        assert run.summary["pruning/verdict"] == str(pruned.verdict)
        assert "pruning/samples" not in run.summary.keys()  # noqa: SIM118 - its `in` is not that of a dictionary
    monkeypatch.setattr(offline, "run", None)
    with pytest.raises(MosoError) as caught:
        log({"moso": [0.0, 1.0]})
    assert caught.value.code == "setting-missing"
