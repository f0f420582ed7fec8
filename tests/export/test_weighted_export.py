"""Exports of a weighted selection: every format has the weights, or says that it has no place for them."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from moso.cli.main import app
from moso.data.dataset import open_dataset
from moso.export.kept import export_kept
from moso.results.selections import Selection, write_selection
from moso.selection import Kept
from tests.export.test_export import image_folder, selected

PICK = {"method": "craig", "selector": "craig", "ratio": 0.5}


def with_weights(run):
    """The run with a weighted selection, whose weights are the positions plus a half."""
    ids = run.samples("train").ids
    kept = np.arange(0, len(ids), 2)
    write_selection(run.directory.root, Selection(**PICK, seed=0), ids, Kept(kept, kept + 0.5))
    return run


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return with_weights(selected(tmp_path_factory.mktemp("digits") / "run"))


def test_indices_have_weights_and_npy_says_that_it_has_not(digits, tmp_path):
    kept = digits.kept(**PICK)
    done = [export_kept(digits, tmp_path / f"kept.{form}", **PICK) for form in ("csv", "parquet", "npy")]
    with (tmp_path / "kept.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["weight"]) for row in rows] == (kept + 0.5).tolist()
    assert pq.read_table(tmp_path / "kept.parquet")["weight"].to_pylist() == (kept + 0.5).tolist()
    assert (np.load(tmp_path / "kept.npy") == kept).all()
    assert [one.note for one in done[:2]] == ["", ""]
    assert "npy" in done[2].note
    assert "weights" in done[2].note


def test_selections_without_weights_are_exported_as_before(digits, tmp_path):
    done = export_kept(digits, tmp_path / "kept.parquet", method="random", selector="balanced", ratio=0.5)
    assert pq.read_table(done.path).column_names == ["id", "position", "label", "score"]
    data = export_kept(
        digits, tmp_path / "data.parquet", method="random", selector="balanced", ratio=0.5, form="parquet-data"
    )
    assert "sample_weight" not in pq.read_schema(data.path).names


def test_data_in_parquet_has_weights_that_are_no_feature(tmp_path):
    draw = np.random.default_rng(0)
    source = tmp_path / "numbers.parquet"
    table = {"height": draw.normal(size=20), "weight": draw.normal(size=20), "label": np.arange(20) % 2}
    pq.write_table(pa.table(table), source)
    run = with_weights(selected(tmp_path / "run", dataset=f"parquet:{source}", test_share=0.2, recipe="table"))
    done = export_kept(run, tmp_path / "kept.parquet", **PICK, form="parquet-data")
    found = pq.read_table(done.path)
    assert found["sample_weight"].to_pylist() == run.weights(**PICK).tolist()
    assert {"height", "weight"} <= set(found.column_names)
    again = open_dataset(f"parquet:{done.path}", test_share=0.3)
    assert again.train.shape == (2,)


def test_a_folder_has_a_file_of_weights(tmp_path):
    run = with_weights(selected(tmp_path / "run", dataset=f"folder:{image_folder(tmp_path / 'data')}"))
    done = export_kept(run, tmp_path / "out", **PICK, form="folder", with_test=True)
    with (done.path / "weights.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    ids = run.table()["id"].to_pylist()
    expected = {f"train/{ids[z]}": z + 0.5 for z in run.kept(**PICK)}
    assert {row["path"]: float(row["weight"]) for row in rows} == expected
    assert all((done.path / row["path"]).is_file() for row in rows)


def test_the_command_line_says_what_a_format_left_out(digits, tmp_path):
    flags = ["--method", "craig", "--selector", "craig", "--ratio", "0.5"]
    asked = ["export", str(digits.directory.root), "--out", str(tmp_path / "kept.npy"), *flags]
    said = CliRunner().invoke(app, asked)
    assert said.exit_code == 0, said.output
    assert "no place for" in said.output
