"""Suspects of a run of pairs: texts that belong to another input are found, by networks and neighbours together."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from moso.analysis.pair_issues import find_pair_issues, pair_suspicions
from moso.configuration import Configuration
from moso.evaluation.detection import auroc
from moso.evidence.layout import part_name
from moso.evidence_kinds.unseen_losses import UNSEEN_LOSSES
from moso.executors import InProcess
from moso.results.reading import Run
from moso.run.job import Job
from moso.run.stages import begin, gather, score_stage
from moso.run.training import network
from refusals import refusal

NAMES = ("cat", "dog", "tree", "car")
SAMPLES, SWAPPED = 240, 48


def picture(kind: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (60 * kind, 255 - 60 * kind, 128)).save(stream, "PNG")
    return stream.getvalue()


def settings_of(folder) -> dict[str, object]:
    """Write pairs of four kinds with a fifth of the texts swapped, and features; return the settings of a run."""
    draw = np.random.default_rng(0)
    centres = draw.normal(0, 1, (4, 10))
    (folder / "pairs").mkdir()
    (folder / "features").mkdir()
    for split, count in (("train", SAMPLES), ("test", 40)):
        kinds = np.arange(count) % 4
        told = (kinds + (np.arange(count) < SWAPPED)) % 4 if split == "train" else kinds
        texts = [f"{('a photo of a', 'one')[number % 2]} {NAMES[kind]}" for number, kind in enumerate(told)]
        table = pa.table({"image": [picture(kind) for kind in kinds], "text": texts})
        pq.write_table(table, folder / "pairs" / f"{split}.parquet")
        rows = (centres[kinds] + draw.normal(0, 0.7, (count, 10))).astype(np.float32)
        np.save(folder / "features" / f"{split}.npy", rows)
        np.save(folder / "features" / f"{split}_labels.npy", np.zeros(count, dtype=np.int64))
    return {
        "dataset": f"pairs:{folder / 'pairs'}?negatives=32", "embed": f"features:{folder / 'features'}",
        "model": "two-towers-w8", "recipe": "pairs", "epochs": 8, "partitions": 3, "time_steps": 2, "seeds": 1,
        "ratios": [0.2], "methods": ["moso-rank"],
    }  # fmt: skip


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A scored run of pairs on features, with its out-of-sample losses."""
    job = Job.open(tmp_path_factory.mktemp("run"), Configuration.resolve(settings_of(tmp_path_factory.mktemp("data"))))
    with job.directory.locked():
        begin(job)
        score_stage(job, InProcess())
        gather(job, InProcess(), frozenset({UNSEEN_LOSSES.name}))
    return job


@pytest.fixture(scope="module")
def run(job):
    return Run.open(job.directory.root)


def test_losses_are_those_of_networks_that_did_not_see_the_pair(job, run):
    view, parts = job.data.train.evaluation_view(), job.partitions(0)
    expected = np.zeros(SAMPLES)
    for part, own in enumerate(parts):
        model = network(job, 0, part_name(part), "final").eval()
        with torch.no_grad():
            found = job.data.task.losses(model, view.batch(np.arange(SAMPLES), 0)).numpy()
        others = ~np.isin(np.arange(SAMPLES), own)
        expected[others] += found[others] / (len(parts) - 1)
    opinions, _ = pair_suspicions(run)
    np.testing.assert_allclose(opinions["out-of-sample"], expected, rtol=1e-4)


def test_swapped_texts_are_found_by_networks_and_neighbours_together(run):
    found = find_pair_issues(run, top=SWAPPED)
    assert found.order == "combined"
    assert found.samples == SAMPLES
    swapped = np.arange(SAMPLES) < SWAPPED
    opinions, note = pair_suspicions(run)
    assert note == ""
    quality = {name: auroc(values, swapped) for name, values in opinions.items()}
    assert quality["combined"] > 0.95
    assert quality["combined"] >= min(quality["neighbours"], quality["out-of-sample"])
    assert "moso-rank" in quality
    assert swapped[found.positions].mean() > 0.6
    texts = run.samples("train").targets
    assert found.texts == texts[found.positions].tolist()
    assert (np.diff(found.suspicion) <= 0).all()


def test_the_command_line_lists_and_writes_them(run, done, tmp_path):
    root = str(run.directory.root)
    said = done("suspects", root, "--workers", "1", "--top", "30", "--out", str(tmp_path))
    assert "most suspicious pairs by combined" in said
    assert "belongs to another input" in " ".join(said.split())
    table = pyarrow.csv.read_csv(tmp_path / "suspects.csv")
    assert table.column_names == ["rank", "id", "text", "loss", "suspicion"]
    assert table["id"].to_pylist() == find_pair_issues(run, top=30).ids
    page = (tmp_path / "suspects.html").read_text()
    assert page.count("<li>") == 30
    assert "data:image/png" in page
    assert (tmp_path / "suspects.png").exists()
    alone = done("suspects", root, "--order", "out-of-sample", "--top", "3", "--out", str(tmp_path / "alone"))
    assert "by out-of-sample" in alone


def test_losses_are_measured_where_they_are_missing(run, done, tmp_path):
    path = UNSEEN_LOSSES.path(run.directory.root)
    before = path.read_bytes()
    path.unlink()
    done("suspects", str(run.directory.root), "--workers", "1", "--quiet", "--out", str(tmp_path))
    assert path.read_bytes() == before


def test_what_makes_no_sense_for_pairs_is_refused(run, refused, tmp_path):
    root = str(run.directory.root)
    assert "are pairs of an input and a text" in refused("suspects", root, "--labels", "some.npy")
    assert "unknown order of suspects 'aum'" in refused("suspects", root, "--order", "aum", "--out", str(tmp_path))
    with refusal("unknown-name", "seed 7 is not a seed of this run"):
        find_pair_issues(run, seed=7)
