"""Suspects of a run: found on noisy digits, measured against the truth, shown and never run."""

import csv

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sklearn.metrics import roc_auc_score

import moso
from moso.analysis.label_issues import find_label_issues, right_labels
from moso.configuration import Configuration
from moso.evidence import read_out_of_sample
from moso.executors import InProcess
from moso.report.suspects.suspects_files import headline, write_suspects
from moso.run import Job
from moso.run.stages import begin, gather, score_stage, train_stage
from refusals import refusal

HOSTILE = "<script>alert(1)<" + "script>"


def scored(root, predictions: bool = True, **settings) -> moso.Run:
    given = {"model": "mlp-w32", "epochs": 8, "partitions": 3, "time_steps": 2, "seeds": 1, "ratios": [0.5]}
    job = Job.open(root, Configuration.resolve({**given, "methods": ["moso", "moso-rank", "aum"], **settings}))
    executor = InProcess()
    with job.directory.locked():
        begin(job)
        train_stage(job, executor)
        score_stage(job, executor)
        if predictions:
            gather(job, executor, frozenset({"predictions"}))
    return moso.Run.open(root)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory) -> moso.Run:
    return scored(tmp_path_factory.mktemp("suspects") / "run", label_noise=0.2)


@pytest.fixture(scope="module")
def found(noisy):
    return find_label_issues(noisy)


def test_wrong_labels_are_found_and_confident_learning_stands_beside(noisy, found):
    assert found.suspects.wrong.mean() > 0.9
    rows = {one.name: one for one in found.detections}
    names = {"out-of-sample", "moso", "moso-rank", "aum", "random"}
    assert set(rows) == names | {
        f"cleanlab: {one}" for one in ("self-confidence", "normalised margin", "confident learning")
    }
    assert rows["out-of-sample"].auroc > 0.9
    assert rows["out-of-sample"].auroc == pytest.approx(rows["cleanlab: self-confidence"].auroc, abs=1e-4)
    assert rows["aum"].auroc > 0.7
    assert 0.4 < rows["random"].auroc < 0.6
    assert rows["cleanlab: confident learning"].flagged > 0


def test_the_truth_is_the_sources_and_the_numbers_are_scikit_learns(noisy, found):
    samples = noisy.samples()
    clean = noisy._data.clean_labels
    wrong = clean != samples.labels
    assert found.wrong == wrong.sum()
    scores = noisy.scores()
    rows = {one.name: one.auroc for one in found.detections}
    for name in ("moso", "moso-rank", "random"):
        assert rows[name] == pytest.approx(roc_auc_score(wrong, -scores[name]))
    places = {sample: place for place, sample in enumerate(samples.ids.to_pylist())}
    probabilities = read_out_of_sample(noisy.directory.root)
    for number, sample in enumerate(found.ids[:20]):
        place = places[sample]
        assert found.suspects.predicted[number] == probabilities[place].argmax()
        assert found.suspects.actual[number] == clean[place]


def test_any_score_can_rank_and_the_best_of_those_there_are_does(noisy, found, tmp_path):
    assert found.order == "aum"
    without = scored(tmp_path / "run", methods=["moso"], epochs=2, model="mlp-w8")
    assert find_label_issues(without).order == "out-of-sample"
    by_score = find_label_issues(noisy, order="moso-rank", top=5)
    assert by_score.suspects.positions.tolist() == np.argsort(noisy.scores()["moso-rank"], kind="stable")[:5].tolist()
    assert len(find_label_issues(noisy, top=None).suspects) == 1438


def test_the_files_hold_what_was_found(noisy, found, tmp_path):
    paths = write_suspects(noisy, found, tmp_path / "out")
    assert {path.name for path in paths} == {
        *("suspects.csv", "suspects.parquet", "suspects.html", "suspects.png", "detection.csv"),
    }
    table = pq.read_table(tmp_path / "out/suspects.parquet")
    assert table["id"].to_pylist() == found.ids
    assert table["wrong"].to_pylist() == found.suspects.wrong.tolist()
    with (tmp_path / "out/suspects.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["id"]) for row in rows] == found.ids
    assert [row["label"] for row in rows] == table["label"].to_pylist()
    with Image.open(tmp_path / "out/suspects.png") as picture:
        assert picture.width > 1000
    page = (tmp_path / "out/suspects.html").read_text(encoding="utf-8")
    assert page.count("<img") == 100
    assert "default-src 'none'" in page
    assert f"{found.suspects.wrong.sum():,} of their labels really are wrong" in headline(found)
    before = {path: path.read_bytes() for path in paths}
    assert {path: path.read_bytes() for path in write_suspects(noisy, found, tmp_path / "out")} == before


def test_labels_known_to_be_right_can_be_given(noisy, tmp_path):
    source = noisy._data
    everything = np.zeros(1797, dtype=np.int64)
    ids = source.train.ids.to_numpy()
    everything[ids] = source.clean_labels
    np.save(tmp_path / "right.npy", everything)
    assert find_label_issues(noisy, labels=str(tmp_path / "right.npy")).wrong == find_label_issues(noisy).wrong
    # The labels that were trained on say nothing about themselves: then the source is right.
    everything[ids] = source.train.labels
    np.save(tmp_path / "noisy.npy", everything)
    assert find_label_issues(noisy, labels=str(tmp_path / "noisy.npy")).wrong == find_label_issues(noisy).wrong
    np.save(tmp_path / "short.npy", everything[:9])
    with refusal("length-mismatch", 9, 1797):
        find_label_issues(noisy, labels=str(tmp_path / "short.npy"))


def test_without_the_truth_there_are_suspects_and_no_detection(tmp_path):
    run = scored(tmp_path / "run", epochs=2, model="mlp-w8")
    found = find_label_issues(run, top=7)
    assert found.wrong is None
    assert found.detections == []
    assert "A doubtful label is not proof: look before you relabel." in headline(found)
    assert len(write_suspects(run, found, tmp_path / "out")) == 4


def test_what_cannot_be_asked_is_one_sentence(noisy, tmp_path):
    with refusal("unknown-name", "mosso", "moso"):
        find_label_issues(noisy, order="mosso")
    with refusal("unknown-name", 7, "(0)"):
        find_label_issues(noisy, seed=7)
    with refusal("evidence-missing"):
        find_label_issues(scored(tmp_path / "without", predictions=False, epochs=2, model="mlp-w8"))


def test_without_cleanlab_its_rows_are_missing_and_said_to_be(noisy, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "cleanlab.filter", None)
    found = find_label_issues(noisy)
    assert not [one for one in found.detections if one.name.startswith("cleanlab")]
    assert "moso-prune[cleanlab]" in found.note


def test_names_from_data_are_shown_and_never_run(tmp_path):
    draw = np.random.default_rng(0)
    for name in (HOSTILE, '"><img src=x onerror=alert(1)>'):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        for number in range(12):
            pixels = draw.integers(0, 255, (60, 50, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"'\" onload='alert(2)' {{{{ 7 * 7 }}}} <b>{number}.png")
    settings = {"dataset": f"folder:{tmp_path / 'data'}", "resize": 8, "epochs": 2, "model": "mlp-w8", "batch_size": 4}
    run = scored(tmp_path / "run", methods=["moso"], partitions=2, label_noise=0.5, **settings)
    write_suspects(run, find_label_issues(run), tmp_path / "out")
    page = (tmp_path / "out/suspects.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<img src=x" not in page
    assert "onload=&#39;alert" in page
    assert "{{ 7 * 7 }} &lt;b&gt;" in page


@pytest.mark.shared_data
def test_human_noise_is_held_against_the_sources_labels(tmp_path, shared_data):
    labels = shared_data / "cifar100n" / "cifar100n_train_labels.npz"
    configuration = Configuration.resolve(
        {"dataset": f"parquet:{shared_data / 'cifar100'}", "labels": f"{labels}:noisy_label"}
    )
    (tmp_path / "run.toml").write_text(configuration.to_toml())
    with np.load(labels) as file:
        noisy, clean = file["noisy_label"], file["clean_label"]
    actual = right_labels(moso.Run.open(tmp_path), noisy, list(range(50_000)))
    np.testing.assert_array_equal(actual, clean)
    assert (actual != noisy).mean() == pytest.approx(0.402, abs=0.001)
