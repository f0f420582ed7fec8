"""`auto`: what it tries, what it must not look at, and what it does with the outcome."""

import json
from dataclasses import replace

import numpy as np
import pytest

import moso
from moso import errors
from moso.configuration import Configuration
from moso.configuration.candidates import candidates
from moso.data.dataset import DataSet
from moso.data.samples import StoredSamples
from moso.evidence import read_terms, write_terms
from moso.executors import InProcess
from moso.results.directory import RunDirectory
from moso.run.choosing import planned_trials, read_decision, read_decisions
from moso.run.choosing.held_out import EvidenceWithout, folds, kept_samples, possible_candidates
from moso.run.choosing.trial import Trial, find_candidate, split
from moso.run.job import Job
from moso.run.seed_evidence import SeedEvidence
from moso.run.stages import begin, evaluate_stage, score_stage, select_stage
from moso.tasks import Classification

CLASSES, WIDTH, SAMPLES = 4, 24, 1000


def blobs(count, seed, wrong=0.0):
    """Gaussian classes; a share of the labels is drawn at random."""
    draw = np.random.default_rng(seed)
    labels = np.arange(count) % CLASSES
    centres = np.random.default_rng(7).normal(0, 0.8, (CLASSES, WIDTH))
    inputs = (centres[labels] + draw.normal(0, 1, (count, WIDTH))).astype(np.float32)
    drawn = draw.random(count) < wrong
    return inputs, np.where(drawn, draw.integers(0, CLASSES, count), labels)


def samples(pair):
    return StoredSamples.from_arrays(*pair, Classification())


def job_at(path, train, test=None, **settings):
    given = {
        **{"dataset": "custom", "model": "linear", "recipe": "table", "epochs": 8, "retrain_epochs": 20},
        **{"batch_size": 16, "partitions": 4, "time_steps": 3, "seeds": 1, "ratios": [0.7], "methods": ["auto"]},
    }
    configuration = Configuration.resolve({**given, **settings})
    data = DataSet("custom", samples(train), samples(test or blobs(80, 99)))
    return Job(RunDirectory(path), configuration, data)


def carried_out(job):
    executor = InProcess()
    with job.directory.locked():
        begin(job)
        score_stage(job, executor)
        select_stage(job)
        evaluate_stage(job, executor)
    return moso.Run.open(job.directory.root)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """A finished run on noisy labels, and its job."""
    job = job_at(tmp_path_factory.mktemp("noisy"), blobs(SAMPLES, 0, wrong=0.4))
    return carried_out(job), job


def test_it_finds_what_is_better_than_random_selection_where_labels_are_wrong(noisy):
    run, job = noisy
    decision = read_decision(job, 0, 0.7)
    assert not decision.is_random
    assert decision.chosen.low > 0
    kept, train = run.kept("auto", 0.7), job.data.train
    right = np.arange(SAMPLES) % CLASSES == train.labels
    assert right[kept].mean() > right.mean() + 0.1
    assert len(kept) == 300


def test_everything_it_tried_is_on_record(noisy):
    _, job = noisy
    [found] = json.loads((job.directory.root / "auto.json").read_text())["decisions"]
    decision = read_decision(job, 0, 0.7)
    assert [decision] == read_decisions(job)
    assert found["winner"] == decision.winner
    assert [one["name"] for one in found["tried"]] == [one.name for one in possible_candidates(job)]
    assert found["tried"][0]["name"] == "random"
    assert {"herding", "k-center", "moso-cross", "moso-rank-late"} <= {one["name"] for one in found["tried"]}
    assert sum(len(one["by_fold"]) for one in found["tried"]) + 4 == found["trainings"]  # random is drawn twice
    assert found["trainings"] == planned_trials(len(found["tried"]), 4)
    assert all(len(one["by_fold"]) == 4 for one in found["tried"] if one["is_finalist"])
    assert decision.winner in decision.sentence()


def test_a_trial_is_what_it_says(noisy):
    """The value of a trial, by a plain loop: keep of the others, train, count on the held-out samples."""
    from moso.training.loop import StepPlan, train

    _, job = noisy
    trial = Trial(0, 0.7, 1, "moso-rank")
    held_out, others = split(job, 0, 1)
    assert not set(held_out) & set(others)
    assert len(held_out) + len(others) == SAMPLES
    scores = SeedEvidence(job, 0)
    values = find_candidate(job, "moso-rank").choice.score(scores)
    kept = others[
        moso.select(values[others], ratio=0.7, selector="balanced", labels=job.data.train.labels[others], ids=others)
    ]
    from moso.randomness import key

    start, recipe = key(0, "auto-start", 1) % 2**31, job.configuration.retraining
    model = job.model(start)
    train(model, StepPlan(job.training_data(recipe, kept, start), recipe, start), loss=job.loss)
    inputs, labels = job.data.train.evaluation_view().batch(held_out, 0)
    right = (model.eval()(inputs).argmax(1) == labels).double().mean()
    assert trial.value(job) == pytest.approx(100 * float(right))


def test_a_trial_does_not_look_at_what_was_measured_with_held_out_samples(noisy):
    _, job = noisy
    fold, everything = folds(4)[2], split(job, 0, 2)[1]

    def chosen(name):
        evidence = EvidenceWithout(job, 0, fold)
        return kept_samples(evidence, find_candidate(job, name), 0.7, 5, everything)

    names = [one.name for one in possible_candidates(job)]
    before = {name: chosen(name) for name in names}
    whole = {name: kept_samples(SeedEvidence(job, 0), find_candidate(job, name), 0.7, 5, everything) for name in names}
    assert not np.array_equal(before["moso-cross"], whole["moso-cross"])  # with the judge that must not be asked
    home = job.directory.of_seed(job.configuration, 0)
    paths = [*(home / "terms/part-002").glob("*.npz"), *(home / "cross-terms-all/part-002").glob("*.npz")]
    kept = {path: read_terms(path) for path in paths}
    try:
        for path, terms in kept.items():
            write_terms(path, replace(terms, dot=-terms.dot, squared_norm=terms.squared_norm * 2))
        for name in names:
            assert np.array_equal(chosen(name), before[name]), name
    finally:
        for path, terms in kept.items():
            write_terms(path, terms)


def test_other_test_data_changes_no_choice(noisy, tmp_path):
    run, job = noisy
    inputs, labels = blobs(80, 99)
    other = job_at(tmp_path, blobs(SAMPLES, 0, wrong=0.4), test=(inputs[:40] * -1, (labels[:40] + 1) % CLASSES))
    found = carried_out(other)
    assert read_decision(other, 0, 0.7) == read_decision(job, 0, 0.7)
    assert np.array_equal(found.kept("auto", 0.7), run.kept("auto", 0.7))
    values = [{row["method"]: row["value"] for row in one.evaluation()}["auto"] for one in (run, found)]
    assert values[0] != values[1]


def test_it_goes_on_from_the_trials_that_are_there(noisy, tmp_path):
    _, whole = noisy
    job = job_at(tmp_path, blobs(SAMPLES, 0, wrong=0.4))
    carried_out(job)
    folder = job.directory.root / "auto" / "ratio-0.7"
    first = Trial(0, 0.7, 0, "random", 1).path(job)
    before = Trial(0, 0.7, 0, "moso").path(job).stat().st_mtime_ns
    first.unlink()
    (folder / "decision.json").unlink()
    carried_out(job)
    assert read_decision(job, 0, 0.7) == read_decision(whole, 0, 0.7)
    assert Trial(0, 0.7, 0, "moso").path(job).stat().st_mtime_ns == before


def test_without_anything_to_learn_it_is_random_selection(tmp_path):
    draw = np.random.default_rng(3)
    nothing = draw.normal(0, 1, (240, WIDTH)).astype(np.float32), draw.integers(0, CLASSES, 240)
    job = job_at(tmp_path, nothing)
    run = carried_out(job)
    decision = read_decision(job, 0, 0.7)
    assert decision.is_random
    assert decision.winner == "random"
    assert "random" in decision.sentence()
    assert np.array_equal(run.kept("auto", 0.7), run.kept("random", 0.7, "balanced"))


def test_samples_without_classes_and_pictures_have_candidates_of_their_own(tmp_path):
    settings = {"dataset": "custom", "by_class": False, "methods": ["auto"], "model": "linear", "recipe": "table"}
    names = {one.name: one for one in candidates(Configuration.resolve(settings), vectors=True, unequal=False)}
    assert names["moso-rank"].choice.selector.name == "top"
    assert names["random"].choice.selector.name == "random"
    pictures = candidates(Configuration.resolve({"dataset": "digits"}), vectors=False, unequal=True)
    assert not any(one.on_inputs for one in pictures)
    assert "moso-rank-proportional" in {one.name for one in pictures}
    sketched = Configuration.resolve({"dataset": "digits", "estimator": "sketched", "methods": ["auto"]})
    assert "cross-terms-all" not in sketched.needs()
    assert "terms" in sketched.needs()


def test_numbers_to_predict_are_chosen_by_their_own_metric(tmp_path):
    draw = np.random.default_rng(0)
    inputs = draw.normal(0, 1, (160, 5)).astype(np.float32)
    targets = (inputs @ draw.normal(0, 1, 5)).astype(np.float32)
    pruned = moso.prune(
        (inputs, targets),
        ratio=0.5,
        method="auto",
        loss=moso.squared_error,
        model="linear",
        out=tmp_path / "run",
        **{"epochs": 3, "partitions": 3, "time_steps": 2},
    )
    assert len(pruned.kept) == 80
    [decision] = json.loads((tmp_path / "run" / "auto.json").read_text())["decisions"]
    assert decision["metric"] == "r2"


@pytest.mark.parametrize("settings", [{"partitions": 2}, {"partitions": 1}])
def test_too_few_partitions_are_refused(settings):
    with pytest.raises(errors.MethodImpossible) as problem:
        Configuration.resolve({"dataset": "digits", "methods": ["auto"], **settings})
    assert problem.value.code == "method-impossible"


def test_a_selector_that_is_meant_for_auto_alone_is_refused():
    with pytest.raises(errors.MethodImpossible, match="no selector with it"):
        Configuration.resolve({"dataset": "digits", "methods": ["auto"], "selectors": ["top"]})
    beside = Configuration.resolve({"dataset": "digits", "methods": ["auto", "moso-rank"], "selectors": ["top"]})
    assert {("auto", "chosen"), ("moso-rank", "top")} <= set(beside.pairs())


def test_a_ratio_that_was_not_tried_is_refused(noisy):
    _, job = noisy
    with pytest.raises(errors.StageIncomplete) as problem:
        select_stage(job, [("auto", None)], [0.3])
    assert problem.value.code == "stage-incomplete"
    assert "0.3" in str(problem.value)


def test_all_methods_does_not_mean_auto():
    assert "auto" not in Configuration.resolve({"dataset": "digits", "methods": ["all"]}).methods
