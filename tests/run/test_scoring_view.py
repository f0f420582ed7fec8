"""Scoring as training saw samples and network: the epoch's own augmentations, batch-norm's statistics of just these."""

import json
import sys
from copy import deepcopy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch.optim.swa_utils import update_bn

import moso
from moso.analysis.estimate import estimate
from moso.configuration import Configuration
from moso.data.views import as_view
from moso.evidence import Trajectory, TrajectoryPoint, read_terms, terms_path
from moso.evidence.renewed_statistics import renewed_statistics
from moso.models import build_model
from moso.run import Job
from moso.run.scoring_view import scoring_view
from refusals import refusal
from whole_runs import scored


def test_statistics_are_those_of_pytorch_s_own_renewal():
    draw = np.random.default_rng(0)
    images, labels = draw.normal(size=(48, 1, 8, 8)).astype(np.float32), np.arange(48) % 4
    model = build_model("convnet-w4", (1, 8, 8), 4, seed=0)
    before = deepcopy(model.state_dict())
    view, positions = as_view((images, labels)), np.arange(48)
    point = TrajectoryPoint(3, (0.1,), memory=deepcopy(model.state_dict()))
    state = renewed_statistics(model, point, view, positions, batch_size=16).state()

    twin = deepcopy(model)
    batches = [view.batch(positions[start : start + 16])[0] for start in (0, 16, 32)]
    update_bn(batches, twin)
    expected = twin.state_dict()
    assert state.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(state[name], value)
    assert any("running_var" in name and not torch.equal(state[name], before[name]) for name in state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_without_batch_norm_a_point_is_itself():
    model = build_model("mlp-w8", (1, 8, 8), 4, seed=0)
    point = TrajectoryPoint(3, (0.1,), memory=model.state_dict())
    view = as_view((np.zeros((4, 1, 8, 8), dtype=np.float32), np.arange(4)))
    assert renewed_statistics(model, point, view, np.arange(4), batch_size=4) is point


def test_own_checkpoints_are_scored_with_statistics_of_their_own_weights():
    """As with a checkpoint whose statistics PyTorch has renewed; the model and the checkpoint are left alone."""
    draw = np.random.default_rng(0)
    data = draw.normal(size=(48, 1, 8, 8)).astype(np.float32), np.arange(48) % 4
    model = build_model("convnet-w4", (1, 8, 8), 4, seed=0)
    checkpoint, view = deepcopy(model.state_dict()), as_view(data)
    twin = deepcopy(model)
    update_bn([view.batch(np.arange(start, start + 16))[0] for start in (0, 16, 32)], twin)
    found = moso.score(model, data, [(checkpoint, 0.1)], renew_statistics=16)
    expected = moso.score(model, data, [(twin.state_dict(), 0.1)])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    plain = moso.score(model, data, [(checkpoint, 0.1)])
    assert np.abs(found - plain).max() > 0.01 * np.abs(plain).max()
    assert all(torch.equal(value, checkpoint[name]) for name, value in model.state_dict().items())
    with refusal("setting-invalid", "renew_statistics", 1):
        moso.score(model, data, [(checkpoint, 0.1)], renew_statistics=1)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """Two runs that differ in the view alone: wrong labels, batch-norm, augmentation."""
    settings = {
        **{"model": "convnet-w4", "partitions": 2, "time_steps": 2, "epochs": 3, "seeds": 1, "ratios": [0.5]},
        **{"label_noise": 0.2, "augmentation": "crop-flip", "methods": ["moso"]},
    }
    root = tmp_path_factory.mktemp("views")
    return {
        view: Job.open(root / view, Configuration.resolve({**settings, "view": view}))
        for view in ("evaluation", "training")
    }


def test_terms_are_those_of_the_augmented_samples_and_their_statistics(noisy):
    """Against a gradient a sample, in float64, through the epoch's own pictures and the renewed statistics."""
    job = noisy["training"]
    run = scored(job)
    root, positions = run.directory.root, job.partitions(0)[1]
    recipe = job.configuration.surrogate
    for recorded in Trajectory.open(root / "trajectory/part-001"):
        view = job.data.train.training_view(recipe.augmentation, 0)
        inputs, labels = view.batch(positions, recorded.epoch)
        plain, _ = job.data.train.evaluation_view().batch(positions)
        assert not torch.equal(inputs, plain)
        _, seen = scoring_view(job, 0, 1, recorded)
        model = job.model(0).double().eval()
        model.load_state_dict({name: value.double() for name, value in seen.state().items()})
        every = []
        for number in range(len(positions)):
            model.zero_grad()
            F.cross_entropy(model(inputs[number : number + 1].double()), labels[number : number + 1]).backward()
            every.append(torch.cat([value.grad.flatten() for value in model.parameters()]))
        gradients = torch.stack(every)
        terms = read_terms(terms_path(root / "terms/part-001", recorded.step))
        dots = (gradients @ gradients.mean(dim=0)).numpy()
        np.testing.assert_allclose(terms.dot[0], dots, atol=1e-4 * np.abs(dots).max())
        np.testing.assert_allclose(terms.squared_norm[0], gradients.square().sum(dim=1).numpy(), rtol=2e-3)


def test_only_the_scoring_differs_and_says_so(noisy):
    runs = {name: scored(job) for name, job in noisy.items()}
    roots = {name: run.directory.root for name, run in runs.items()}
    trained = {name: sorted(root.glob("trajectory/*/*.safetensors")) for name, root in roots.items()}
    assert [one.read_bytes() for one in trained["evaluation"]] == [one.read_bytes() for one in trained["training"]]
    scores = {name: run.scores()["moso"] for name, run in runs.items()}
    assert abs(spearmanr(scores["evaluation"], scores["training"])[0]) < 0.99
    notes = {name: json.loads((root / "scores/moso.json").read_text()) for name, root in roots.items()}
    assert notes["training"]["view"] == "training"
    assert "view" not in notes["evaluation"]


def test_without_batch_norm_and_augmentation_both_views_are_one(small_run):
    runs = [scored(small_run(name, epochs=3, time_steps=2, view=name)) for name in ("evaluation", "training")]
    np.testing.assert_array_equal(*(run.scores()["moso"] for run in runs))


@pytest.mark.parametrize("other", [{"estimator": "in-run", "time_steps": None}, {"shard_size": 100}])
def test_what_cannot_go_together_is_refused_at_once(small_run, other):
    with refusal("settings-conflict", "training"):
        small_run(**{"epochs": 3, "view": "training", **other})


def test_a_dry_run_prices_the_statistics(small_run, monkeypatch):
    """As one more look at every sample of a time step; what the two cost is made up, so that the sum can be known."""
    module = sys.modules[estimate.__module__]
    monkeypatch.setattr(module, "_scoring_seconds", lambda *_: 0.01)
    monkeypatch.setattr(module, "_looking_seconds", lambda *_: 0.002)
    for view, of_a_sample in (("evaluation", 0.01), ("training", 0.012)):
        (stage,) = [one for one in estimate(small_run(view, view=view), 1).stages if one.name == "score"]
        assert (stage.pieces, stage.seconds_each) == (2, pytest.approx(3 * 719 * of_a_sample))
