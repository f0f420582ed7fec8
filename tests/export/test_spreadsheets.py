"""What is written as CSV is safe to open in a spreadsheet, and reads back as it was."""

import csv

import numpy as np
import pyarrow as pa
import pytest

from moso.data.labels import read_labels
from moso.data.samples import StoredSamples
from moso.files import plain_cell, safe_cell, write_csv
from moso.results.overrides import read_overrides
from moso.run.imported_scores import read_imported_list, read_imported_scores

NAMES = ["=1+1.png", "+2.png", "-3.png", "@sum.png", "\tx.png", "'tis.png", "plain.png"]


@pytest.fixture
def samples():
    one = StoredSamples.from_arrays(np.zeros((len(NAMES), 2), np.float32), np.arange(len(NAMES)) % 2)
    return StoredSamples(pa.array(NAMES), one.task, one.targets, one.reader)


@pytest.mark.parametrize("name", [*NAMES, "\rcr", ""])
def test_no_cell_is_a_formula_and_all_come_back(name):
    cell = safe_cell(name)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert plain_cell(cell) == name


def test_ids_come_back_from_every_file_that_names_them(tmp_path, samples):
    write_csv(tmp_path / "all.csv", ("id", "score", "decision", "label"), ((name, 0.5, "keep", 1) for name in NAMES))
    with (tmp_path / "all.csv").open(newline="") as file:
        assert not [row for row in csv.reader(file) if row[0].startswith(("=", "+", "-", "@", "\t"))]
    assert read_imported_list(tmp_path / "all.csv", samples).tolist() == list(range(len(NAMES)))
    assert read_imported_scores(tmp_path / "all.csv", samples).tolist() == [0.5] * len(NAMES)
    assert read_overrides(tmp_path / "all.csv", samples).keep.tolist() == list(range(len(NAMES)))
    labels = read_labels(
        f"{tmp_path / 'all.csv'}:label", len(NAMES), ["a", "b"], samples.ids, np.zeros(len(NAMES), int)
    )
    assert labels.tolist() == [1] * len(NAMES)


def test_numbers_stay_numbers(tmp_path):
    write_csv(tmp_path / "scores.csv", ("id", "score"), [(-1, -0.5)])
    assert (tmp_path / "scores.csv").read_text() == "id,score\n-1,-0.5\n"
