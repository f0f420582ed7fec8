"""Rounds: networks trained on what is kept, judged by everything; one round is what there was before."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import moso
from moso import errors
from moso.configuration import Configuration
from moso.evidence import Trajectory
from moso.evidence_kinds.training_adjoint import ADJOINT
from moso.executors import LocalProcesses
from moso.results.selections import Selection, read_selection
from moso.run.job import Job
from moso.run.rounds import round_ratios
from tests.whole_runs import TINY, carried_out

SETTINGS = {**TINY, "methods": ["moso-rank"]}


def job_at(path, **settings):
    return Job.open(path, Configuration.resolve({**SETTINGS, **settings}))


def rounds_of(job, choice):
    made_by = Selection(choice.method, choice.selector.name, 0.6, 0, choice.parameters)
    return job.directory.root / "rounds" / made_by.digest()


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    job = job_at(tmp_path_factory.mktemp("three"), rounds=3)
    return carried_out(job), job


def test_a_round_trains_on_what_is_kept_and_scores_everything(three):
    run, job = three
    folder, count = rounds_of(job, job.configuration.choice("moso-rank")), len(job.data.train)
    second, third = (Job.open(folder / f"round-{number}") for number in (2, 3))
    assert second.trained_on.sum() == count - int(0.2 * count)
    assert third.trained_on.sum() == count - int(0.4 * count)
    assert not (third.trained_on & ~second.trained_on).any()  # what is dropped stays dropped
    kept = run.kept("moso-rank", 0.6)
    assert len(kept) == count - int(0.6 * count)
    assert third.trained_on[kept].all()
    # The first round drops the lowest scores of the run itself.
    own = moso.select(run.scores()["moso-rank"], ratio=0.2, labels=job.data.train.labels, selector="balanced")
    assert np.array_equal(np.flatnonzero(second.trained_on), own)
    last = moso.Run.open(folder / "round-3").scores()["moso-rank"]
    again = moso.select(
        last,
        ratio=0.6,
        labels=job.data.train.labels,
        selector="balanced",
        always_drop=np.flatnonzero(~third.trained_on),
    )
    assert np.array_equal(again, kept)


def test_dropped_samples_stay_in_the_risk(three):
    """The terms of a later round by brute force: the mean gradient of all samples of the partition."""
    _, job = three
    later = Job.open(rounds_of(job, job.configuration.choice("moso-rank")) / "round-3")
    home, positions = later.directory.root, later.partitions(0)[1]
    assert len(later.trained(0)[1]) < len(positions)
    point = next(iter(Trajectory.open(home / "trajectory" / "part-001")))
    model = later.model(0).double().eval()
    model.load_state_dict(point.state())
    inputs, labels = later.data.train.evaluation_view().batch(positions, 0)
    gradients = []
    for one in range(len(positions)):
        loss = F.cross_entropy(model(inputs[one : one + 1].double()), labels[one : one + 1])
        gradients.append(torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))]))
    stacked = torch.stack(gradients)
    found = np.load(home / "terms" / "part-001" / f"step-{point.step:08d}.npz")
    assert np.allclose(found["dot"], (stacked @ stacked.mean(0)).numpy(), rtol=1e-4, atol=1e-6)


def test_the_surrogate_of_a_round_is_one_trained_on_what_is_kept(three):
    from moso.training.loop import StepPlan, train

    _, job = three
    later = Job.open(rounds_of(job, job.configuration.choice("moso-rank")) / "round-2")
    model, recipe = later.model(0), later.configuration.surrogate
    data = later.training_data(recipe, later.trained(0)[0], 0)
    train(model, StepPlan(data, recipe, 0), loss=later.loss)
    found = load_file(later.directory.root / "state" / "part-000" / "final.safetensors")
    assert all(torch.equal(value, found[name]) for name, value in model.state_dict().items())


def test_one_round_is_what_there_was(tmp_path):
    plain, one = job_at(tmp_path / "plain"), job_at(tmp_path / "one", rounds=1)
    for job in (plain, one):
        carried_out(job)
    made_by = Selection("moso-rank", "balanced", 0.6, 0)
    kept = [read_selection(job.directory.root, made_by) for job in (plain, one)]
    assert np.array_equal(*kept)
    scores = [(job.directory.root / "scores" / "moso-rank.npy") for job in (plain, one)]
    assert all(path.exists() for path in scores) is False or scores[0].read_bytes() == scores[1].read_bytes()
    assert not (one.directory.root / "rounds").exists()


def test_rounds_go_on_and_come_out_the_same_in_other_processes(three, tmp_path):
    run, _ = three
    job = job_at(tmp_path, rounds=3)
    with LocalProcesses(2) as executor:
        other = carried_out(job, executor)
    assert np.array_equal(other.kept("moso-rank", 0.6), run.kept("moso-rank", 0.6))
    again = carried_out(job)
    assert np.array_equal(again.kept("moso-rank", 0.6), run.kept("moso-rank", 0.6))


@pytest.mark.parametrize("method", ["moso-cross", "el2n", "aum", "moso-adjoint"])
def test_any_score_goes_in_rounds(method, tmp_path):
    job = job_at(tmp_path, rounds=2, methods=[method], augmentation="none")
    run = carried_out(job)
    count = len(job.data.train)
    assert len(run.kept(method, 0.6)) == count - int(0.6 * count)
    if method == "moso-adjoint":
        later = Job.open(rounds_of(job, job.configuration.choice(method)) / "round-2")
        for part, positions in enumerate(later.partitions(0)):
            terms = ADJOINT.path(later.directory.root, part)
            change = np.load(terms)["change"]
            assert len(change) == len(positions)
            assert (change[~later.trained_on[positions]] == change.min()).all()


def test_shares_grow_evenly():
    assert round_ratios(0.8, 1) == [0.8]
    assert round_ratios(0.9, 3) == [0.3, 0.6, 0.9]


@pytest.mark.parametrize("settings", [{"probes": 2}, {"shard_size": 10}, {"methods": ["auto"], "partitions": 3}])
def test_what_does_not_go_in_rounds_is_refused(settings):
    with pytest.raises(errors.SettingsConflict) as problem:
        Configuration.resolve({**SETTINGS, "rounds": 2, **settings})
    assert problem.value.code == "settings-conflict"
