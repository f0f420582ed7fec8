"""Histories of samples: neighbours against brute force, sketches against features, stability against its extremes."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from report_runs import Elements, run_to

from moso.report.page.page import render
from moso.report.page.sample_history import Nearest, sketched
from moso.report.page.stability import stability_curve
from moso.results import Run
from moso.selection.feature_rows import Features


def test_neighbours_are_those_of_brute_force_whatever_the_block():
    rows = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    distances = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    for block in (7, 64, 1000):
        nearest = Nearest(Features(rows), block)
        for position in (0, 63, 199):
            assert nearest(position, 5).tolist() == np.argsort(distances[position], kind="stable")[:5].tolist()
    assert len(Nearest(Features(rows))(0, 10_000)) == 199


def test_sketches_keep_neighbours_of_features_that_vary_in_few_directions():
    draw = np.random.default_rng(0)
    rows = (draw.normal(size=(300, 5)) @ draw.normal(size=(5, 200))).astype(np.float32)
    small = sketched(Features(rows))
    assert small.shape == (300, 32)
    exact, rough = Nearest(Features(rows)), Nearest(Features(small))
    shared = [len({*exact(one, 10).tolist()} & {*rough(one, 10).tolist()}) for one in range(300)]
    assert np.mean(shared) > 7
    assert (sketched(Features(rows)) == small).all()


def test_features_that_are_all_alike_have_a_sketch():
    assert (sketched(Features(np.ones((10, 4)))) == 0).all()


def test_stability_is_one_for_steps_that_agree_and_none_for_noise():
    draw = np.random.default_rng(0)
    same = np.tile(draw.normal(size=500), (6, 1))
    curve = stability_curve([same, same], seed=0)
    assert all(row[1] == pytest.approx(1) for rows in curve.values() for row in rows)
    noise = stability_curve([draw.normal(size=(6, 2000))], seed=0)
    assert all(abs(row[1]) < 0.1 for row in noise["disjoint"])
    means = [row[1] for row in noise["with_all"]]
    assert means == sorted(means)
    assert stability_curve([same], seed=0) == stability_curve([same], seed=0)


def test_what_networks_and_suspects_say_is_in_the_page(finished, tmp_path):
    shutil.copytree(finished.directory.root, tmp_path / "run")
    run, ids = Run.open(tmp_path / "run"), finished.table()["id"]
    said = np.random.default_rng(0).dirichlet(np.ones(10), len(ids)).astype(np.float32)
    (tmp_path / "run" / "predictions").mkdir()
    np.save(tmp_path / "run" / "predictions" / "out-of-sample.npy", said)
    (tmp_path / "run" / "suspects").mkdir()
    pq.write_table(pa.table({"rank": [1, 2], "id": ids.take([7, 3])}), tmp_path / "run/suspects/suspects.parquet")
    found, labels = Elements(render(run)), run.table()["label"].to_numpy()
    assert found.about["predictions"] == ""
    assert (found.column("predicted") == said.argmax(axis=1)).all()
    assert (found.column("predicted-probability") == said.max(axis=1)).all()
    assert (found.column("label-probability") == said[np.arange(len(said)), labels]).all()
    assert np.flatnonzero(found.column("suspected")).tolist() == [3, 7]


def test_what_training_recorded_is_in_the_page(tmp_path):
    """A method that asks for dynamics and one that asks for features leave both."""
    run = run_to(tmp_path / "run", "scored", methods=["forgetting", "aum", "moderate", "moso"], seeds=1)
    found = Elements(render(run))
    assert found.about["evidence"] == {"dynamics": "", "features": ""}
    dynamics = run.dynamics()
    assert (found.column("dynamics/correct") == dynamics.column("correct")).all()
    low, high = found.about["columns"]["dynamics/margin"]["scale"]
    margins = low + found.column("dynamics/margin") * (high - low) / 255
    assert margins == pytest.approx(np.asarray(dynamics.column("margin")), abs=(high - low) / 500)
    accuracy = 100 * np.asarray(dynamics.column("correct")).mean(axis=1)
    assert found.about["training"]["accuracy"] == pytest.approx(accuracy.tolist(), abs=1e-3)
    assert found.column("features").shape == (min(32, run.features().shape[1]), 1438)
    assert found.about["predictions"] != ""
