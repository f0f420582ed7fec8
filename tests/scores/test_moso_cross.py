"""`moso-cross` against brute force: samples at surrogates of other partitions, gradient by gradient in float64."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from moso import errors
from moso.configuration import Configuration
from moso.evidence import Trajectory
from moso.evidence_kinds.cross_terms import CROSS_TERMS
from moso.run.job import Job
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
