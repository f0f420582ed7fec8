"""The adjoint against what it is the derivative of: finite differences of whole runs, and exact leave-one-out."""

import numpy as np
import pytest
import scipy.stats
import torch
from problems import HARD, digits, network, on_the_way_out, recipe, recorded, risk_of, trained_with

from moso.adjoint import adjoint_sweep
from moso.adjoint.final_risk import risk_gradients
from moso.adjoint.step import Step, final_adjoint
from moso.evidence import PartitionTerms, StepTerms, TrajectoryPoint, step_terms
from moso.exact.leave_one_out import exact_scores
from moso.gradients import SampleRisk
from moso.scores import moso_score

ADAMW = {"optimizer": "adamw", "momentum": 0.9, "learning_rate": 0.01, "weight_decay": 0.01, "batch_size": 7}
RECIPES = {
    "full batch": {},
    "momentum": {"momentum": 0.9, "batch_size": 7},
    "all at once": {**HARD, "batch_size": 7},
    "slower trunk": {"momentum": 0.9, "batch_size": 7, "trunk_factor": 0.2},
    "one a batch": {"batch_size": 1, "momentum": 0.9, "learning_rate": 0.02},
    "adamw": ADAMW,
    "adam": {**ADAMW, "optimizer": "adam", "beta2": 0.99, "epsilon": 1e-6},
    "adamw clipped": {**ADAMW, "clip_norm": 0.3, "schedule": "cosine"},
}


@pytest.mark.parametrize("settings", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize("name", ["linear", "tanh", "smooth-norm", "convnet-w4"])
def test_it_is_the_derivative_of_the_whole_run(name, settings, tmp_path):
    if name in ("smooth-norm", "convnet-w4") and settings.get("batch_size") == 1:
        settings = {**settings, "batch_size": 2}  # batch-norm may see one sample in many positions, but barely
    data, how = digits(16), recipe(**settings)
    found = adjoint_sweep(recorded(name, data, how, tmp_path)).change
    assert np.ptp(found) > 1e-5
    # Rectifiers kink: the smaller the nudge, the fewer it pushes over.
    nudge = 1e-6 if name == "convnet-w4" else 1e-5
    for position in (0, 11):
        up, down = (
            risk_of(trained_with(name, data, how, on_the_way_out(position, share)), data, data.positions)
            for share in (nudge, -nudge)
        )
        assert found[position] == pytest.approx((up - down) / (2 * nudge), rel=2e-4, abs=2e-7)


def test_of_another_risk_too(tmp_path):
    data, how = digits(24), recipe(batch_size=5, momentum=0.9)
    trained_on, held_out = np.arange(14), np.arange(14, 24)
    own = type(data)(data.view, trained_on, data.keys)
    found = adjoint_sweep(recorded("smooth-norm", own, how, tmp_path), SampleRisk(data.view, held_out)).scores()
    for position in (3, 9):
        up, down = (
            risk_of(trained_with("smooth-norm", own, how, on_the_way_out(position, share)), data, held_out)
            for share in (1e-4, -1e-4)
        )
        assert found[position] == pytest.approx((up - down) / 2e-4, rel=1e-4, abs=1e-8)


PROBLEMS = {
    "convex": ("linear", {"epochs": 20}, 0.97),
    "tanh": ("tanh", {"epochs": 20}, 0.99),
    "rectified": ("mlp-w8", {"epochs": 20}, 0.95),
    "momentum": ("tanh", {"epochs": 10, "momentum": 0.9}, 0.98),
    "mini-batches": ("tanh", {"epochs": 5, "batch_size": 15}, 0.98),
    "batch-norm": ("smooth-norm", {"epochs": 5, "batch_size": 20}, 0.95),
    "everything": ("convnet-w4", {"epochs": 2, "batch_size": 20, **HARD, "learning_rate": 0.03}, 0.95),
}


@pytest.mark.parametrize(("name", "settings", "least"), PROBLEMS.values(), ids=PROBLEMS)
def test_it_ranks_like_exact_leave_one_out(name, settings, least, tmp_path):
    data, how = digits(40), recipe(**settings)
    terms = adjoint_sweep(recorded(name, data, how, tmp_path), probes=40)
    truth = exact_scores(network(name), data, how, seed=5, dtype=torch.float64).scores
    assert scipy.stats.spearmanr(terms.scores(), truth).statistic > least
    error = np.sqrt(np.square(terms.scores() - truth).mean()) / truth.std()
    assert error < 0.5


def test_replaced_by_the_gradient_of_the_moment_it_is_the_centred_sum(tmp_path):
    """With grad L(S\\z, w_t) in place of the adjoint and full batches, to 1e-10."""
    data, how, N = digits(12), recipe(epochs=5, schedule="cosine"), 12
    replay = recorded("tanh", data, how, tmp_path)
    others = (1 - np.eye(N)) / (N - 1)
    function = Step(replay.start, replay.loss, how, replay.seed)
    found, steps = np.zeros(N), list[StepTerms]()
    for stretch in replay.backwards():
        for update in stretch.updates:
            rows = risk_gradients(
                replay.start, update.state, SampleRisk(data.view, data.positions), replay.loss, others
            )
            replaced = [final_adjoint(update.state, how, *row) for row in rows]
            changes = function.back(update.state, update.batch, update.rate, replaced).changes
            found[update.positions] += changes[update.positions, np.arange(N)]
            point = TrajectoryPoint(update.after.step, (update.rate,), memory=update.state.trained)
            steps.append(step_terms(replay.start, point, data.view, data.positions, loss=replay.loss))
    expected = moso_score(PartitionTerms(len(steps), steps), "centred")
    assert np.abs(expected).max() > 1e-4
    assert np.abs(found - expected).max() < 1e-10


def test_probes_scatter_around_the_self_term_as_they_say(tmp_path):
    replay = recorded("tanh", digits(24), recipe(epochs=8), tmp_path)
    exact, probed = adjoint_sweep(replay, probes=24), adjoint_sweep(replay, probes=12)
    assert (exact.own_variance == 0).all()
    assert probed.probes == 12
    deviation = (probed.own_change - exact.own_change) / np.sqrt(probed.own_variance)
    assert 0.3 < np.sqrt(np.square(deviation).mean()) < 3
    assert (probed.change == adjoint_sweep(replay).change).all()
    assert (probed.own_variance > 0).all()
