"""What is written as CSV is safe to open in a spreadsheet, and reads back as it was."""

import csv
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import moso
from moso.data.labels import read_labels
from moso.data.samples import StoredSamples
from moso.files import plain_cell, safe_cell, write_csv
from moso.results.overrides import read_overrides
from moso.run.imported_scores import read_imported_list, read_imported_scores

# Those that begin with apostrophes would be cells of others, if each had not one more.
NAMES = ["=1+1.png", "'=1+1.png", "''=1+1.png", "+2.png", "-3.png", "@sum.png", "\tx.png", "'tis.png", "plain.png"]
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@pytest.fixture
def samples():
    one = StoredSamples.from_arrays(np.zeros((len(NAMES), 2), np.float32), np.arange(len(NAMES)) % 2)
    return StoredSamples(pa.array(NAMES), one.task, one.targets, one.reader)


@pytest.mark.parametrize("name", [*NAMES, "\rcr", ""])
def test_no_cell_is_a_formula_and_all_come_back(name):
    cell = safe_cell(name)
    assert not cell.startswith(FORMULA)
    assert plain_cell(cell) == name


def test_no_two_texts_share_a_cell():
    assert len({safe_cell(name) for name in NAMES}) == len(NAMES)


def test_no_name_of_a_column_is_a_formula(tmp_path):
    write_csv(tmp_path / "all.csv", ("id", "=cmd|' /C calc'!A0"), [(1, 2)])
    assert (tmp_path / "all.csv").read_text().splitlines()[0] == "id,'=cmd|' /C calc'!A0"


def test_the_page_writes_cells_as_the_package_does():
    """The rule of `page/src/exports.ts`, computed by Node where it is installed."""
    root = Path(__file__).parents[2]
    [rule] = re.findall(r"return (/.*/)\.test\(text\) \? `'", (root / "page/src/exports.ts").read_text())
    assert f"return{rule}.test(" in (root / "src/moso/report/page/assets/page.js").read_text()
    if shutil.which("node") is None:
        pytest.skip("Node is not installed")
    texts = [*NAMES, "\rcr", "", "-0.5", "a=b", "' =1"]
    script = f"console.log(JSON.stringify({json.dumps(texts)}.map((text) => {rule}.test(text) ? `'${{text}}` : text)))"
    said = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == [safe_cell(text) for text in texts]


def test_what_export_and_suspects_write_reads_back(tmp_path, left):
    """A folder whose pictures are named like formulas, through a run, its exports, and back."""
    draw = np.random.default_rng(0)
    for split, count in (("train", 6), ("val", 2)):
        for name in ("=ant", "bee"):
            folder = tmp_path / "pictures" / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = draw.integers(0, 255, (8, 8, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(folder / f"{'=+-@'[number % 4]}{number}.png")
    common = ("--workers", "1", "--quiet")
    code, _, said = left(
        *("run", "--dataset", f"folder:{tmp_path / 'pictures'}", "--model", "mlp-w8", "--epochs", "1", "--seeds", "1"),
        *("--partitions", "2", "--time-steps", "1", "--ratio", "0.5", "--method", "moso", "--out", "run", *common),
    )
    assert code == 0, said
    assert left("export", "run", "--out", "kept.csv", "--ratio", "0.5", "--method", "moso")[0] == 0
    code, _, said = left("suspects", "run", *common)
    assert code == 0, said
    for path in (tmp_path / "kept.csv", *(tmp_path / "run").rglob("*.csv")):
        with path.open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        unsafe = [cell for cell in cells if cell.startswith(FORMULA) and not _is_number(cell)]
        assert not unsafe, (path, unsafe)
    kept = moso.Run.open("run").kept(method="moso", ratio=0.5)
    samples = moso.Run.open("run").samples("train")
    assert any(one.startswith("=") for one in samples.ids.to_pylist())
    assert read_imported_list(tmp_path / "kept.csv", samples).tolist() == kept.tolist()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_ids_come_back_from_every_file_that_names_them(tmp_path, samples):
    write_csv(tmp_path / "all.csv", ("id", "score", "decision", "label"), ((name, 0.5, "keep", 1) for name in NAMES))
    with (tmp_path / "all.csv").open(newline="") as file:
        assert not [row for row in csv.reader(file) if row[0].startswith(FORMULA)]
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
