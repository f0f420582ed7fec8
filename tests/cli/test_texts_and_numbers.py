"""Texts and numbers to predict by the command line, from a file to a report and back to a file."""

import csv
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import moso
from moso.cli.main import main

SMALL = [
    *("--epochs", "2", "--partitions", "2", "--time-steps", "2", "--seeds", "1", "--ratio", "0.5"),
    *("--method", "moso-rank", "--workers", "1"),
]


@pytest.fixture
def moso_says(capsys, tmp_path, monkeypatch):
    """Run a command; returns what it printed, or its one sentence where it must be refused."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, refused: bool = False) -> str:
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        said = capsys.readouterr()
        assert (left.value.code or 0) == (2 if refused else 0), said.err
        assert "Traceback" not in said.err
        return said.err if refused else said.out

    return run


def write_reviews(file, count: int = 40) -> list[dict[str, str]]:
    draw = np.random.default_rng(0)
    words = {"good": ["fine", "great", "lovely"], "bad": ["awful", "poor", "dull"]}
    rows = []
    for number in range(count):
        label = ("good", "bad")[number % 2]
        text = " ".join(draw.choice([*words[label], "film", "<b>plot</b>"], 5))
        rows.append({"review": str(number), "text": text, "label": label})
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ["review", "text", "label"], delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    return rows


def test_texts_from_file_to_file(moso_says, tmp_path):
    rows = write_reviews(tmp_path / "reviews.tsv")
    said = moso_says("run", "--dataset", "text:reviews.tsv", *SMALL, "--label-noise", "0.9", "--out", "run")
    assert "accuracy in % on text:" in said
    run = moso.Run.open("run")
    assert (run.configuration.model, run.configuration.recipe) == ("bag", "text")
    assert run.build_model()(run.dataset("train")[0][0][None]).shape == (1, 2)
    assert "<b>plot" not in (tmp_path / "run/report.html").read_text()
    assert run.samples().text(0) in {row["text"] for row in rows}

    moso_says("export", "run", "--method", "moso-rank", "--ratio", "0.5", "--out", "kept.tsv")
    with (tmp_path / "kept.tsv").open(newline="") as stream:
        kept = list(csv.DictReader(stream, delimiter="\t"))
    table, classes = run.table(), run.samples().classes
    expected = []
    for position in run.kept("moso-rank", 0.5):
        row = rows[table["id"][int(position)].as_py()]
        expected.append({**row, "label": classes[table["label"][int(position)].as_py()]})
    assert kept == expected
    assert any(row["label"] != rows[int(row["review"])]["label"] for row in kept)  # labels as trained, noise and all

    options = ("--method", "moso-rank", "--ratio", "0.5", "--with-test")
    moso_says("export", "run", *options, "--format", "text", "--out", "pruned")
    assert {path.name for path in (tmp_path / "pruned").glob("*.tsv")} == {"train.tsv", "test.tsv"}
    moso_says("export", "run", *options, "--format", "parquet-data", "--out", "tables")
    for again in ("text:pruned", "text:tables"):
        moso_says("train", "--dataset", again, *SMALL, "--quiet", "--out", again[5:] + "-run")
        data = moso.Run.open(again[5:] + "-run")
        assert (len(data.samples()), len(data.samples("test"))) == (16, 8)
        assert [data.samples().text(one) for one in range(16)] == [row["text"] for row in kept]


def test_numbers_from_table_to_table(moso_says, tmp_path):
    draw = np.random.default_rng(0)
    size, age = draw.normal(size=(2, 60)) * 40 + 100
    columns = {"size": size, "age": age, "price": 3 * size - age, "id": np.arange(60)}
    pq.write_table(pa.table(columns), tmp_path / "houses.parquet")
    said = moso_says(
        "run", "--dataset", "parquet:houses.parquet?target=price", *SMALL, "--epochs", "30", "--out", "run"
    )
    assert "R² in % on parquet:" in said
    assert "balanced" not in said
    run = moso.Run.open("run")
    assert (run.configuration.model, run.configuration.recipe) == ("mlp-w32", "table")
    np.testing.assert_allclose(
        run.table()["label"].to_numpy(), (3 * size - age)[run.table()["id"].to_numpy()], rtol=1e-6
    )
    evaluation = pq.read_table(tmp_path / "run/evaluation.parquet")
    assert set(evaluation["metric"].to_pylist()) == {"r2"}
    assert evaluation["accuracy"].null_count == len(evaluation)
    assert max(evaluation["value"].to_pylist()) > 80
    page = (tmp_path / "run/report.html").read_text()
    about = json.loads(re.search(r'<script[^>]*id="about"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    assert "R²" in about["headline"]
    assert about["classes"] == []

    options = ("--method", "moso-rank", "--ratio", "0.5", "--format", "parquet-data")
    moso_says("export", "run", *options, "--out", "kept.parquet")
    kept = pq.read_table("kept.parquet")
    assert kept.column_names == ["size", "age", "target", "id"]
    rows = kept["id"].to_numpy()
    np.testing.assert_allclose(kept["target"].to_numpy(), (3 * size - age)[rows], rtol=1e-6)
    moso_says("train", "--dataset", "parquet:kept.parquet?target=target", *SMALL, "--quiet", "--out", "again")
    moso_says("export", "run", "--method", "moso-rank", "--ratio", "0.5", "--out", "kept.csv")
    with (tmp_path / "kept.csv").open() as stream:
        assert next(csv.DictReader(stream)).keys() == {"id", "position", "label"}


def test_diabetes_is_a_data_set(moso_says):
    said = moso_says("run", "--dataset", "diabetes", *SMALL, "--epochs", "10", "--out", "run")
    assert "R² in % on diabetes" in said
    assert moso.Run.open("run").samples().targets.shape == (354,)
    assert "diabetes" in [row["name"] for row in json.loads(moso_says("datasets", "--json"))]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            ["--dataset", "diabetes", "--selector", "balanced"],
            "chooses class by class, but the samples have no classes",
        ),
        (["--dataset", "diabetes", "--label-noise", "0.1"], "--labels and --label-noise are for classes"),
        (["--dataset", "diabetes", "--model", "bag"], "takes texts, but inputs are of shape (10,)"),
        (["--dataset", "diabetes:x"], "takes no path"),
        (["--dataset", "text:reviews.tsv", "--model", "convnet"], "takes images, but inputs are texts"),
        (["--dataset", "text:reviews.tsv", "--augmentation", "crop"], "needs pictures"),
        (["--dataset", "text:nowhere.tsv"], "needs a file or folder of texts"),
        (["--dataset", "text:reviews.tsv?label=review"], "leaves the test split empty"),
        (["--dataset", "reviews.tsv"], "say what it holds, for example text:"),
    ],
)
def test_bad_input_gets_one_sentence_before_anything_is_trained(moso_says, tmp_path, flags, sentence):
    write_reviews(tmp_path / "reviews.tsv")
    said = moso_says("run", *SMALL, *flags, "--out", "run", refused=True)
    assert sentence in said
    assert not (tmp_path / "run/trajectory").exists()


def test_exports_that_make_no_sense_are_refused(moso_says, tmp_path):
    write_reviews(tmp_path / "reviews.tsv")
    moso_says("run", "--dataset", "text:reviews.tsv", *SMALL, "--quiet", "--out", "run")
    chosen = ("export", "run", "--method", "moso-rank", "--ratio", "0.5")
    assert "stay one: end kept.jsonl in .tsv" in moso_says(*chosen, "--out", "kept.jsonl", refused=True)
    assert "pictures" in moso_says(*chosen, "--format", "folder", "--out", "kept", refused=True)
    assert "give a folder" in moso_says(*chosen, "--with-test", "--out", "kept.tsv", refused=True)
    assert "classes only" in moso_says("exact", "--dataset", "diabetes", "--label-noise", "0", refused=True)


@pytest.mark.shared_data
def test_trec_is_scored(moso_says, shared_data):
    flags = [*SMALL, "--epochs", "1", "--partitions", "5", "--model", "bag-w8", "--quiet"]
    moso_says("train", "--dataset", f"text:{shared_data / 'trec'}", *flags, "--out", "run")
    moso_says("score", "run", "--workers", "1", "--quiet")
    scores = moso.Run.open("run").scores()["moso-rank"]
    assert scores.shape == (5369,)
    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 0
