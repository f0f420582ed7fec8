"""On vectors, suspects are ranked by networks and neighbours together."""

import numpy as np
import pytest

from moso.analysis.label_issues import find_label_issues, label_suspicion
from moso.configuration import Configuration
from moso.errors import PackageMissing
from moso.executors import InProcess
from moso.report.page.doubt_columns import doubt_columns
from moso.results.reading import Run
from moso.run.job import Job
from moso.run.stages import begin, gather, score_stage


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on features of three classes, a third of its labels drawn at random."""
    folder, draw = tmp_path_factory.mktemp("features"), np.random.default_rng(0)
    centres = draw.normal(0, 1, (3, 10))
    for name, count in (("train", 360), ("test", 60)):
        labels = np.arange(count) % 3
        np.save(folder / f"{name}.npy", (centres[labels] + draw.normal(0, 1, (count, 10))).astype(np.float32))
        np.save(folder / f"{name}_labels.npy", labels)
    settings = {"dataset": f"features:{folder}", "label_noise": 0.3, "epochs": 5, "partitions": 3, "time_steps": 2}
    place = tmp_path_factory.mktemp("run")
    job = Job.open(place, Configuration.resolve({**settings, "seeds": 1, "ratios": [0.5], "methods": ["moso-rank"]}))
    with job.directory.locked():
        begin(job)
        score_stage(job, InProcess())
        gather(job, InProcess(), frozenset({"predictions"}))
    return Run.open(place)


def test_the_default_is_both_opinions_together(run):
    found = find_label_issues(run)
    assert found.order == "combined"
    by_name = {one.name: one.auroc for one in found.detections}
    assert {"combined", "neighbours", "out-of-sample", "moso-rank"} <= set(by_name)
    assert by_name["combined"] > 0.85
    assert by_name["combined"] > min(by_name["neighbours"], by_name["out-of-sample"])


def test_each_opinion_can_be_asked_alone(run):
    alone = [find_label_issues(run, order=name).suspects.positions.tolist() for name in ("neighbours", "out-of-sample")]
    assert alone[0] != alone[1]


def test_where_neighbours_cannot_be_searched_that_is_said(run, monkeypatch):
    def missing(*_):
        raise PackageMissing("a search for neighbours needs faiss")

    monkeypatch.setattr("moso.analysis.label_issues.neighbour_doubt", missing)
    found = find_label_issues(run)
    assert found.order == "out-of-sample"
    assert "faiss" in found.note


def test_the_page_ranks_by_what_suspects_recommends(run):
    found = label_suspicion(run)
    assert found is not None
    name, values = found
    listed = find_label_issues(run, top=None)
    assert name == listed.order
    ranked = values[listed.suspects.positions]
    assert (np.diff(ranked) <= 0).all()
    assert doubt_columns(run)[0]["order"] == "combined"
