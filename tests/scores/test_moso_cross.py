"""`moso-cross` against brute force: samples at surrogates of other partitions, gradient by gradient in float64."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from moso import errors
from moso.configuration import Configuration
from moso.data import as_view
from moso.evidence import Trajectory, TrajectoryPoint, judged_terms
from moso.evidence_kinds.cross_terms import CROSS_TERMS, JudgedTerms
from moso.run.job import Job
from moso.scores.moso_cross import moso_cross_score
from tests.whole_runs import scored

SETTINGS = {
    "dataset": "digits",
    "model": "mlp-w8",
    "epochs": 2,
    "partitions": 3,
    "time_steps": 2,
    "seeds": 1,
    "ratios": [0.8],
    "methods": ["moso-cross"],
}


def job_at(path, **settings):
    return Job.open(path, Configuration.resolve({**SETTINGS, **settings}))


def gradients(model, view, positions, epoch):
    found = []
    for z in positions:
        inputs, labels = view.batch(np.array([z]), epoch)
        loss = F.cross_entropy(model(inputs.double()), labels)
        found.append(torch.cat([one.flatten() for one in torch.autograd.grad(loss, list(model.parameters()))]))
    return torch.stack(found)


def brute_force(job, judges):
    """The definition read aloud: ranks of G . g_z among the judged samples, averaged over steps and judges."""
    home, parts = job.directory.of_seed(job.configuration, 0), job.partitions(0)
    view, total, count = job.data.train.evaluation_view(), np.zeros(len(job.data.train)), np.zeros(len(job.data.train))
    for judge, own in enumerate(parts):
        others = [part for part in range(len(parts)) if part != judge]
        judged_parts = others if judges == "all" else [(judge - 1) % len(parts)]
        judged = np.concatenate([parts[part] for part in judged_parts])
        for point in Trajectory.open(home / "trajectory" / f"part-{judge:03d}"):
            model = job.model(0).double().eval()
            model.load_state_dict(point.state())
            mean = gradients(model, view, own, point.epoch).mean(0)
            products = (gradients(model, view, judged, point.epoch) @ mean).numpy()
            above = (products[:, None] > products[None, :]).sum(1) + (products[:, None] == products[None, :]).sum(1) / 2
            total[judged] += (above - 0.5) / (len(judged) - 1)
            count[judged] += 1
    return total / count


@pytest.mark.parametrize("judges", ["one", "all"])
def test_it_is_the_definition(tmp_path, judges):
    job = job_at(tmp_path, settings={"moso-cross": {"judges": judges}})
    found = scored(job).scores()["moso-cross"]
    expected = brute_force(job, judges)
    # Products that differ by rounding may swap neighbouring ranks, of several hundred.
    assert np.abs(found - expected).max() < 0.01
    assert np.abs(found - expected).mean() < 1e-4
    assert np.ptp(found) > 0.5


def test_the_sum_is_the_definition(tmp_path):
    job = job_at(tmp_path, settings={"moso-cross": {"judges": "all", "combine": "sum"}})
    found = scored(job).scores()["moso-cross"]
    home, parts, view = job.directory.of_seed(job.configuration, 0), job.partitions(0), job.data.train.evaluation_view()
    expected, everything = np.zeros(len(job.data.train)), np.arange(len(job.data.train))
    for judge, own in enumerate(parts):
        judged = np.setdiff1d(everything, own)
        trajectory = Trajectory.open(home / "trajectory" / f"part-{judge:03d}")
        for point in trajectory:
            model = job.model(0).double().eval()
            model.load_state_dict(point.state())
            mean = gradients(model, view, own, point.epoch).mean(0)
            products = (gradients(model, view, judged, point.epoch) @ mean).numpy()
            expected[judged] += trajectory.total_steps * point.learning_rates[0] * products / len(list(trajectory)) / 2
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def test_with_all_steps_the_sum_is_the_fall_of_the_loss():
    """Plain gradient descent moves by -eta G, so the terms of all steps add up to the fall of a sample's loss."""
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(40, 5, generator=draw)
    labels = (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0.5).long()
    own, judged, view = np.arange(25), np.arange(25, 40), as_view((inputs, labels))
    errors_by_rate = []
    for steps in (20, 40, 80):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3))
        before = F.cross_entropy(model(inputs), labels, reduction="none").detach().numpy()
        rate, terms = 3 / steps, []
        for step in range(1, steps + 1):
            gradient = torch.autograd.grad(F.cross_entropy(model(inputs[own]), labels[own]), list(model.parameters()))
            with torch.no_grad():
                for weight, one in zip(model.parameters(), gradient, strict=True):
                    weight -= rate * one
            state = {name: value.clone() for name, value in model.state_dict().items()}
            point = TrajectoryPoint(step, (rate,), memory=state)
            terms.append(judged_terms(model, point, view, own, judged))
        after = F.cross_entropy(model(inputs), labels, reduction="none").detach().numpy()
        found = moso_cross_score([JudgedTerms(judged, terms, steps)], 40, "sum")
        assert np.isnan(found[own]).all()
        fall = (before - after)[judged]
        assert np.corrcoef(found[judged], fall)[0, 1] > 0.998
        errors_by_rate.append(np.abs(found[judged] - fall).max() / np.abs(fall).max())
    # A sum over steps is an integral to first order in the rate: half the rate, half the error.
    assert errors_by_rate[-1] < 0.03
    assert errors_by_rate[1] / errors_by_rate[0] == pytest.approx(0.5, abs=0.1)
    assert errors_by_rate[2] / errors_by_rate[1] == pytest.approx(0.5, abs=0.1)


def test_nobody_judges_the_samples_it_was_trained_on(tmp_path):
    from moso.run.seed_evidence import SeedEvidence

    job = job_at(tmp_path)
    scored(job)
    judged = SeedEvidence(job, 0).read(CROSS_TERMS)
    for part, (one, own) in enumerate(zip(judged, job.partitions(0), strict=True)):
        assert not set(one.positions) & set(own)
        assert np.array_equal(one.positions, job.partitions(0)[(part - 1) % 3])
    assert sorted(np.concatenate([one.positions for one in judged])) == list(range(len(job.data.train)))


def test_it_goes_on_from_the_steps_that_are_there(tmp_path):
    whole = scored(job_at(tmp_path / "whole")).scores()["moso-cross"]
    job = job_at(tmp_path / "broken")
    scored(job)
    folder = CROSS_TERMS.path(tmp_path / "broken", 1)
    (folder / "complete.json").unlink()
    first, second = sorted(folder.glob("step-*.npz"))
    before = first.stat().st_mtime_ns
    second.unlink()
    assert np.array_equal(scored(job).scores()["moso-cross"], whole)
    assert first.stat().st_mtime_ns == before


def test_the_view_of_training_is_taken(tmp_path):
    plain = scored(job_at(tmp_path / "plain", model="convnet-w4", epochs=1, view="evaluation")).scores()["moso-cross"]
    seen = scored(job_at(tmp_path / "seen", model="convnet-w4", epochs=1, view="training")).scores()["moso-cross"]
    assert not np.allclose(plain, seen)


@pytest.mark.parametrize("settings", [{"partitions": 1}, {"estimator": "sketched"}, {"risk": "validation"}])
def test_what_it_cannot_have_is_refused(settings):
    with pytest.raises(errors.MethodImpossible) as problem:
        Configuration.resolve({**SETTINGS, **settings})
    assert problem.value.code == "method-impossible"
