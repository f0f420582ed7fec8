"""Estimators as settings of a run: recorded, resumed, and behind the same directory."""

import json

import numpy as np
import pytest
from scipy.stats import spearmanr

import moso
from moso.analysis.estimate import estimate
from moso.configuration import Configuration
from moso.run import Job
from moso.run.stages import score_stage, train_stage
from refusals import refusal
from whole_runs import scored


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    settings = {"model": "mlp-w8", "epochs": 3, "partitions": 2, "time_steps": 2, "seeds": 1, "ratios": [0.5]}
    settings |= {"methods": ["moso", "moso-rank"], "view": "evaluation"}
    root = tmp_path_factory.mktemp("exact") / "run"
    return scored(Job.open(root, Configuration.resolve(settings))).scores()


@pytest.mark.parametrize("name", ["subsampled", "sketched", "last-layer", "in-run"])
def test_a_run_with_another_estimator_is_a_run_like_any_other(small_run, exact, name):
    run = scored(small_run(name, epochs=3, time_steps=2, estimator=name, sketch_numbers=200))
    root = run.directory.root
    assert f'estimator = "{name}"' in (root / "run.toml").read_text()
    assert json.loads((root / "scores" / "moso.json").read_text())["estimator"] == name
    assert len(list(root.glob("terms/part-*/step-*.npz"))) == 4
    scores = run.scores()
    assert np.isfinite(scores["moso"]).all()
    assert not np.allclose(scores["moso"], exact["moso"])
    assert spearmanr(scores["moso-rank"], exact["moso-rank"])[0] > 0.4
    again = Configuration.read(root / "run.toml")
    assert not again.difference(run.configuration)


def test_in_run_terms_need_no_trajectory_and_no_scoring(small_run):
    job = small_run(epochs=3, time_steps=None, estimator="in-run")
    run = scored(job, (train_stage,))
    root = run.directory.root
    assert job.configuration.time_steps == 2  # all epochs but the first
    assert not (root / "trajectory").exists()
    files = sorted(root.glob("terms/part-000/*.npz"))
    per_epoch = job.steps_per_epoch(job.partitions(0)[0])
    assert [file.name for file in files] == [f"step-{step * per_epoch:08d}.npz" for step in (2, 3)]
    files[0].unlink()
    with refusal("stage-incomplete", "out"):
        scored(job, (score_stage,))


def test_settings_that_cannot_work_are_refused_before_anything_runs(small_run):
    with refusal("recipe-unsuitable"):
        small_run(epochs=1, estimator="in-run")
    with refusal("setting-invalid", "guess"):
        small_run(estimator="guess")
    with refusal("setting-invalid", "mean_share"):
        small_run(estimator="subsampled", mean_share=0.0)
    with refusal("setting-invalid", "time_steps", "epochs"):
        scored(small_run(epochs=3, time_steps=5, estimator="in-run"))


@pytest.mark.parametrize("name", ["sketched", "in-run"])
def test_dry_runs_price_them(small_run, name):
    priced = estimate(small_run(epochs=3, time_steps=2, estimator=name), 1)
    assert ("score" in {stage.name for stage in priced.stages}) == (name != "in-run")
    assert all(stage.seconds > 0 for stage in priced.stages)


def test_the_library_takes_an_estimator_by_name_or_with_settings():
    images, labels = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype(np.uint8), np.arange(40) % 2
    settings = {"model": "mlp-w8", "recipe": "quick", "partitions": 1, "epochs": 3, "ratio": 0.5}
    pruned = moso.prune((images, labels), estimator="in-run", **settings)
    assert len(pruned.kept) == 20
    model = pruned.run.build_model()
    trajectory = [(model.state_dict(), 0.1)]
    scores = {
        name: moso.score(model, (images, labels), trajectory, estimator=name)
        for name in ("exact", "last-layer", "sketched")
    }
    assert not np.allclose(scores["exact"], scores["last-layer"])
    np.testing.assert_allclose(
        moso.score(model, (images, labels), trajectory, estimator=moso.Estimator("subsampled", mean_share=1.0)),
        scores["exact"],
        rtol=1e-4,
        atol=1e-6 * np.abs(scores["exact"]).max(),
    )
    with refusal("settings-conflict", "estimator", "moso.prune"):
        moso.score(model, (images, labels), trajectory, estimator="in-run")
