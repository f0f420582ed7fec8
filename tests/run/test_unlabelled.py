"""Data without labels: what opens, what is selected without training anything, and what is refused."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import moso
from moso.cli.main import main
from moso.configuration import Configuration
from moso.data.dataset import open_dataset
from refusals import refusal

METHODS = ("random", "herding", "gm-matching", "ssp", "zcore", "k-center", "facility-location", "graph-cut", "semdedup")


def call(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(one) for one in arguments])
    return ended.value.code


def kept_ids(out, method):
    table = pq.read_table(out / "selections.parquet").to_pylist()
    return {row["id"] for row in table if row["method"] == method and row.get("kept", True)}


@pytest.fixture
def features(tmp_path):
    folder = tmp_path / "features"
    folder.mkdir()
    np.save(folder / "train.npy", load_digits().data[:120].astype(np.float32))
    return folder


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    (folder / "deep" / "er").mkdir(parents=True)
    for number, one in enumerate(load_digits().images[:30]):
        where = folder / "deep" / "er" if number % 2 else folder
        Image.fromarray((15 * one).astype(np.uint8)).save(where / f"{number:02d}.png")
    return folder


def test_features_without_labels_open_with_the_ids_beside_them(features):
    with refusal("labels-missing", "--unlabelled"):
        open_dataset(f"features:{features}")
    np.save(features / "train_ids.npy", np.arange(120) * 7)
    data = open_dataset(f"features:{features}", task="unlabelled")
    assert data.test is None
    assert len(data.train) == 120
    assert data.train.ids.to_pylist()[:3] == [0, 7, 14]
    assert data.train.classes == ()
    assert (data.train.labels == 0).all()


def test_pictures_open_wherever_they_lie(pictures):
    with refusal("too-few-classes"):
        open_dataset(f"folder:{pictures}", test_share=0)
    data = open_dataset(f"folder:{pictures}", task="unlabelled")
    assert len(data.train) == 30
    assert "deep/er/01.png" in data.train.ids.to_pylist()
    assert sorted(data.train.ids.to_pylist()) == data.train.ids.to_pylist()
    assert data.train.shape == (3, 8, 8)
    empty = pictures / "empty"
    empty.mkdir()
    with refusal("data-empty"):
        open_dataset(f"folder:{empty}", task="unlabelled")


def test_texts_and_tables_open_without_a_column_of_labels(tmp_path):
    (tmp_path / "texts.csv").write_text("text\nan apple\na pear\na plum\n")
    with refusal("column-missing", "label"):
        open_dataset(f"text:{tmp_path / 'texts.csv'}")
    assert len(open_dataset(f"text:{tmp_path / 'texts.csv'}", task="unlabelled").train) == 3
    table = pa.table({"x": [1.0, 2.0, 4.0], "y": [3, 1, 2], "id": [5, 6, 7]})
    pq.write_table(table, tmp_path / "points.parquet")
    with refusal("column-missing", "label"):
        open_dataset(f"parquet:{tmp_path / 'points.parquet'}")
    data = open_dataset(f"parquet:{tmp_path / 'points.parquet'}", task="unlabelled")
    assert (len(data.train), data.train.shape) == (3, (2,))


def test_labels_that_are_there_are_left_out():
    data = open_dataset("digits", task="unlabelled")
    assert data.test is None
    assert len(data.train) == 1797  # nothing is held out, for nothing is tested
    assert data.train.targets.shape == (1797, 0)
    with refusal("classes-required"):
        open_dataset("digits", task="unlabelled", label_noise=0.2)


def test_a_run_of_all_methods_selects_and_trains_nothing(features, tmp_path):
    out = tmp_path / "run"
    told = ["--dataset", f"features:{features}", "--unlabelled", "--method", "all", "--ratio", 0.5, "--seeds", 1]
    told += ["--setting", "ssp.clusters=10", "--setting", "zcore.draws=200"]
    assert call("run", *told, "--out", out, "--workers", 1, "--quiet") == 0
    assert all(len(kept_ids(out, method)) == 60 for method in METHODS)
    assert not (out / "trajectory").exists()
    assert not (out / "dynamics").exists()
    assert [path.name for path in (out / "state").glob("reference*")] == []
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    assert not [one for one in events if one.get("stage") == "train" and "seconds" in one]
    assert (out / "report.html").stat().st_size > 10_000


def test_what_needs_labels_is_refused_with_the_names_of_what_does_not(features, tmp_path, capsys):
    told = ["--dataset", f"features:{features}", "--unlabelled", "--out", tmp_path / "run"]
    for method in ("el2n", "moso-rank", "auto", "bws", "moderate"):
        assert call("run", *told, "--method", method) == 2
        said = capsys.readouterr().err
        assert all(name in said for name in METHODS)
    assert call("run", *told, "--method", "zcore", "--selector", "balanced") == 2
    assert call("run", *told, "--task", "regression") == 2
    assert call("compare", *told, "--method", "zcore") == 2
    assert "labels" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_evaluation_is_refused_and_export_writes_what_is_kept(features, tmp_path, capsys):
    out = tmp_path / "run"
    told = ["--dataset", f"features:{features}", "--unlabelled", "--method", "k-center", "--ratio", 0.5, "--seeds", 1]
    assert call("run", *told, "--out", out, "--workers", 1) == 0
    assert "60 of 120 kept" in capsys.readouterr().out
    assert call("evaluate", out) == 2
    assert "labels" in capsys.readouterr().err
    assert call("export", out, "--method", "k-center", "--ratio", 0.5, "--out", tmp_path / "kept.npy") == 0
    assert len(np.load(tmp_path / "kept.npy")) == 60
    assert call("export", out, "--method", "k-center", "--ratio", 0.5, "--out", tmp_path / "kept.parquet") == 0
    assert pq.read_table(tmp_path / "kept.parquet").num_rows == 60


def given_embedding(folder, count):
    np.save(folder / "mine.npy", np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32))
    return ["--unlabelled", "--embedding", folder / "mine.npy", "--seeds", 1, "--ratio", 0.5, "--workers", 1, "--quiet"]


def test_pictures_without_labels_are_selected_by_a_given_embedding_and_exported_as_they_lie(pictures, tmp_path):
    told = [*given_embedding(tmp_path, 30), "--method", "facility-location", "--method", "zcore"]
    told += ["--setting", "zcore.draws=50"]
    out = tmp_path / "run"
    assert call("run", "--dataset", f"folder:{pictures}", *told, "--out", out) == 0
    assert (out / "report.html").exists()
    chosen = ["--method", "facility-location", "--ratio", 0.5]
    assert call("export", out, *chosen, "--format", "folder", "--out", tmp_path / "kept") == 0
    there = {path.relative_to(tmp_path / "kept" / "train").as_posix() for path in (tmp_path / "kept").rglob("*.png")}
    assert there == kept_ids(out, "facility-location")
    assert len(open_dataset(f"folder:{tmp_path / 'kept'}", task="unlabelled").train) == 15
    assert call("export", out, *chosen, "--format", "parquet-data", "--out", tmp_path / "kept.parquet") == 0
    assert pq.read_schema(tmp_path / "kept.parquet").names == ["image", "id"]


def test_texts_and_tables_without_labels_are_exported_in_their_own_layout(tmp_path):
    (tmp_path / "texts.csv").write_text("text,source\n" + "".join(f"fruit {n},web\n" for n in range(12)))
    told = [*given_embedding(tmp_path, 12), "--method", "k-center"]
    chosen = ["--method", "k-center", "--ratio", 0.5]
    assert call("run", "--dataset", f"text:{tmp_path / 'texts.csv'}", *told, "--out", tmp_path / "run") == 0
    kept = tmp_path / "kept.csv"
    assert call("export", tmp_path / "run", *chosen, "--format", "text", "--out", kept) == 0
    assert kept.read_text().splitlines()[0] == "text,source"
    assert len(kept.read_text().splitlines()) == 7
    pq.write_table(pa.table({"x": np.arange(12.0), "y": np.arange(12.0) ** 2}), tmp_path / "points.parquet")
    told = [*told[:1], "--embedding", "inputs", *told[3:]]
    assert call("run", "--dataset", f"parquet:{tmp_path / 'points.parquet'}", *told, "--out", tmp_path / "table") == 0
    assert (
        call("export", tmp_path / "table", *chosen, "--format", "parquet-data", "--out", tmp_path / "kept.parquet") == 0
    )
    assert pq.read_table(tmp_path / "kept.parquet").column_names == ["x", "y", "id"]


def test_the_library_prunes_a_column_of_inputs(tmp_path):
    rows = load_digits().data[:100].astype(np.float32)
    pruned = moso.prune(rows, task="unlabelled", ratio=0.7, method="k-center", progress=False)
    direct = moso.select(None, ratio=0.7, selector="k-center", features=(rows - rows.mean(0)))
    assert len(pruned.kept) == len(direct) == 30
    with refusal("wrong-type", "task='unlabelled'"):
        moso.prune(rows, ratio=0.7, progress=False)
    with refusal("method-impossible", "moso-rank", "zcore"):
        moso.prune(rows, task="unlabelled", ratio=0.7, progress=False)
    with refusal("settings-conflict"):
        moso.prune(rows, task="unlabelled", ratio=0.7, method="zcore", test_set=rows, progress=False)
    with refusal("settings-conflict", "labels="):
        moso.prune(rows, task="unlabelled", ratio=0.7, method="zcore", labels=[0] * 100, progress=False)


def test_a_linear_head_on_features_compares_inputs_and_trains_no_reference(features):
    np.save(features / "train_labels.npy", load_digits().target[:120])
    told = {"dataset": f"features:{features}", "methods": ["herding"]}
    assert Configuration.resolve(told).needs() == {"embedding", "labels"}
    assert Configuration.resolve({**told, "model": "mlp-w8"}).needs() == {"features", "labels"}
    assert Configuration.resolve({**told, "features": "reference"}).needs() == {"features", "labels"}
    assert Configuration.resolve({"dataset": "digits", "methods": ["herding"]}).features == "reference"


def test_the_embedding_of_a_linear_head_is_what_its_reference_sees(features, tmp_path):
    np.save(features / "train_labels.npy", load_digits().target[:120])
    np.save(features / "test.npy", load_digits().data[120:160].astype(np.float32))
    np.save(features / "test_labels.npy", load_digits().target[120:160])
    kept = {}
    for which in ("reference", "embedding"):
        out = tmp_path / which
        told = ["--dataset", f"features:{features}", "--method", "herding", "--features", which, "--epochs", 2]
        assert call("run", *told, "--ratio", 0.5, "--seeds", 1, "--out", out, "--workers", 1, "--quiet") == 0
        file = out / "features" / ("reference-00.npy" if which == "reference" else "embedding.npy")
        kept[which] = np.load(file), kept_ids(out, "herding")
    assert (kept["reference"][0] == kept["embedding"][0]).all()
    assert kept["reference"][1] == kept["embedding"][1]
