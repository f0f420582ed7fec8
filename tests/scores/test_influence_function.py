"""`influence` against explicit Hessians, retraining, and our own adjoint at the limit of a converged run."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from torch import nn

from moso import errors
from moso.adjoint import adjoint_sweep
from moso.configuration import Configuration
from moso.data.views import as_view
from moso.evidence.second_order.inverse_hessian import Solver, conjugate_gradients, risk_influences
from moso.gradients import SampleRisk, cross_entropy
from moso.run.job import Job
from moso.scores import find_score
from refusals import refusal
from tests.whole_runs import scored

sys.path.append(str(Path(__file__).parents[1] / "adjoint"))
from problems import digits, recipe, recorded

DRAW = np.random.default_rng(0)
INPUTS = DRAW.normal(size=(30, 4)).astype(np.float32)
LABELS = ((INPUTS[:, 0] > 0) + (INPUTS[:, 1] > 0.5)).astype(np.int64)
VIEW = as_view((INPUTS, LABELS))
EVERYTHING = np.arange(30)


def trained(decay=0.05, steps=4000, positions=EVERYTHING):
    """Softmax regression at its minimum."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=steps, tolerance_grad=1e-9, tolerance_change=1e-14)
    inputs, labels = VIEW.batch(positions)

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels) + decay / 2 * sum(p.square().sum() for p in model.parameters())
        loss.backward()
        return loss

    optimizer.step(closure)
    return model


def explicit(model, added, risk=EVERYTHING):
    """The formula read aloud: the whole Hessian by autograd in float64, inverted."""
    inputs, labels = VIEW.batch(EVERYTHING)
    names = [name for name, _ in model.named_parameters()]
    shapes = [p.shape for p in model.parameters()]
    flat = torch.cat([p.detach().double().flatten() for p in model.parameters()])

    def losses(vector):
        parts = torch.split(vector, [shape.numel() for shape in shapes])
        values = {name: part.view(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
        out = torch.func.functional_call(model, values, (inputs.double(),))
        return F.cross_entropy(out, labels, reduction="none")

    gradients = torch.autograd.functional.jacobian(losses, flat)
    hessian = torch.autograd.functional.hessian(lambda v: losses(v).mean(), flat)
    hessian += added * torch.eye(len(flat), dtype=torch.float64)
    solution = torch.linalg.solve(hessian, gradients[risk].mean(0))
    return ((gradients - gradients.mean(0)) @ solution).numpy() / (len(labels) - 1)


def by_factors(monkeypatch):
    monkeypatch.setattr("moso.evidence.second_order.inverse_hessian.FORMED", 0)


WAYS = {
    "formed": ("head", lambda monkeypatch: None),
    "factors": ("head", by_factors),
    "differentiated": ("all", lambda monkeypatch: None),
}


@pytest.mark.parametrize(("scope", "prepare"), WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("risk", ["train", "some"])
def test_it_is_the_formula_with_the_explicit_hessian(monkeypatch, scope, prepare, risk):
    prepare(monkeypatch)
    model = trained()
    some = np.array([3, 8, 9])
    judged = None if risk == "train" else SampleRisk(VIEW, some)
    solver = Solver(scope, damping=0.02, weight_decay=0.05, tolerance=1e-6)
    found = risk_influences(model, VIEW, EVERYTHING, risk=judged, solver=solver)
    expected = explicit(model, 0.07, EVERYTHING if risk == "train" else some)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-3 * np.abs(expected).max())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_order_is_that_of_dattris_explicit_influence_function():
    """dattri's (the `bench` extra) is grad R_i^T H^-1 g_z per test sample; ours takes the mean of g and of N off."""
    pytest.importorskip("dattri")
    from dattri.algorithm.influence_function import IFAttributorExplicit
    from dattri.task import AttributionTask
    from torch.utils.data import DataLoader, TensorDataset

    model = trained()

    def loss(parameters, data):
        inputs, labels = data
        outputs = torch.func.functional_call(model, parameters, (inputs,))
        return F.cross_entropy(outputs, labels)

    loader = DataLoader(TensorDataset(*VIEW.batch(EVERYTHING)), batch_size=30, shuffle=False)
    task = AttributionTask(loss_func=loss, model=model, checkpoints=model.state_dict())
    attributor = IFAttributorExplicit(task=task, regularization=0.07, device="cpu")
    attributor.cache(loader)
    theirs = np.asarray(attributor.attribute(loader, loader).detach(), dtype=np.float64).mean(axis=1)
    solver = Solver("all", damping=0.02, weight_decay=0.05, tolerance=1e-6)
    found = risk_influences(model, VIEW, EVERYTHING, solver=solver)
    expected = (theirs - theirs.mean()) / 29
    assert found == pytest.approx(expected, rel=1e-2, abs=1e-2 * np.abs(expected).max())


def test_a_network_of_several_layers_is_differentiated_through_all_of_them():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3))
    solver = Solver("all", damping=2.0, tolerance=1e-6)
    found = risk_influences(model, VIEW, EVERYTHING, solver=solver)
    assert found == pytest.approx(explicit(model, 2.0), rel=1e-3, abs=1e-6)


def test_without_a_bias_and_of_another_loss():
    torch.manual_seed(0)
    model = nn.Linear(4, 3, bias=False)
    found = risk_influences(model, VIEW, EVERYTHING, solver=Solver(damping=0.1, tolerance=1e-6))
    assert found == pytest.approx(explicit(model, 0.1), rel=1e-3, abs=1e-6)

    def doubled(network, batch):
        return 2 * cross_entropy(network, batch)

    # Twice the loss has twice the gradients and the Hessian: with twice the damping the change of the risk doubles.
    twice = risk_influences(model, VIEW, EVERYTHING, loss=doubled, solver=Solver(damping=0.2, tolerance=1e-6))
    assert twice == pytest.approx(2 * found, rel=1e-3, abs=1e-6)


def test_the_order_of_the_data_does_not_matter():
    model, order = trained(), np.random.default_rng(1).permutation(30)
    solver = Solver(weight_decay=0.05)
    found = risk_influences(model, VIEW, EVERYTHING, solver=solver)
    other = risk_influences(model, as_view((INPUTS[order], LABELS[order])), EVERYTHING, solver=solver)
    assert other == pytest.approx(found[order], rel=1e-3, abs=1e-7)


def test_at_the_limit_of_a_converged_run_it_is_our_own_adjoint(tmp_path):
    """Strongly convex, full batches, hundreds of steps: the derivative of training is that of its minimum."""
    data = digits(40)
    trained_on, held_out = np.arange(30), np.arange(30, 40)
    own = type(data)(data.view, trained_on, data.keys)
    how = recipe(epochs=800, learning_rate=0.5, weight_decay=0.05)
    replay = recorded("linear", own, how, tmp_path)
    risk = SampleRisk(data.view, held_out)
    expected = adjoint_sweep(replay, risk).change
    model = _final(replay)
    assert float(_slope(model, own, 0.05)) < 1e-7, "the run has converged"
    solver = Solver("all", damping=0.0, weight_decay=0.05, tolerance=1e-10)
    found = risk_influences(model, data.view, trained_on, loss=replay.loss, risk=risk, solver=solver)
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-9)
    assert np.ptp(expected) > 1e-3
    # Far from convergence the two are not the same, so the test can fail.
    short = adjoint_sweep(recorded("linear", own, recipe(epochs=5), tmp_path / "short"), risk).change
    assert np.abs(short - found).max() > 1e-3


def _final(replay):
    import copy

    from moso.training.loop import StepPlan, train

    model = copy.deepcopy(replay.start)
    train(model, StepPlan(replay.data, replay.recipe, seed=5), loss=replay.loss)
    return model


def _slope(model, data, decay):
    inputs, labels = data.view.batch(data.positions)
    loss = F.cross_entropy(model(inputs.double()), labels)
    loss = loss + decay / 2 * sum(p.square().sum() for p in model.parameters())
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))]).norm()


@torch.no_grad()
def loss_of(model, positions):
    inputs, labels = VIEW.batch(positions)
    return F.cross_entropy(model(inputs), labels).item()


def test_it_ranks_samples_as_retraining_without_each_does():
    own, held_out = EVERYTHING[:22], EVERYTHING[22:]
    whole = trained(positions=own)
    truth = [loss_of(trained(positions=np.delete(own, z)), held_out) - loss_of(whole, held_out) for z in own]
    solver = Solver(damping=0.0, weight_decay=0.05)
    found = risk_influences(whole, VIEW, own, risk=SampleRisk(VIEW, held_out), solver=solver)
    assert scipy.stats.spearmanr(found, truth).statistic > 0.95


def test_curving_downwards_and_not_converging_are_refused_with_the_damping():
    matrix = torch.diag(torch.tensor([1.0, -0.5], dtype=torch.float64))
    wanted = torch.ones(2, dtype=torch.float64)
    with refusal("not-differentiable", "damping", "0.1", "influence.damping"):
        conjugate_gradients(lambda v: matrix @ v, wanted, Solver(damping=0.1))
    assert conjugate_gradients(lambda v: matrix @ v, wanted, Solver(damping=1.0)).tolist() == pytest.approx([0.5, 2.0])
    wide = torch.diag(torch.logspace(0, 8, 60, dtype=torch.float64))
    with refusal("not-differentiable", "0.001", 5, "iterations"):
        conjugate_gradients(
            lambda v: wide @ v, torch.ones(60, dtype=torch.float64), Solver(damping=0.001, iterations=5)
        )
    with refusal("setting-invalid", "damping"):
        risk_influences(trained(), VIEW, EVERYTHING, solver=Solver(damping=0.0))
    with refusal("too-few-samples", 1):
        risk_influences(trained(), VIEW, EVERYTHING[:1])


def test_a_risk_that_does_not_depend_on_the_parameters_has_no_influence():
    found = risk_influences(nn.Linear(4, 3), VIEW, EVERYTHING, risk=lambda model: model.weight.sum() * 0)
    assert not found.any()


def test_a_run_measures_it_by_the_settings_of_the_score(tmp_path):
    given = {
        "dataset": "digits",
        "model": "linear",
        "epochs": 2,
        "partitions": 2,
        "seeds": 1,
        "ratios": [0.5],
        "methods": ["influence"],
        "settings": ["influence.damping=0.05", "influence.parameters=all"],
        "validation_share": 0.1,
        "risk": "validation",
        "device": "cpu",
    }
    job = Job.open(tmp_path, Configuration.resolve(given))
    run = scored(job)
    note = json.loads((tmp_path / "scores" / "influence.json").read_text())
    assert note["settings"] == {"parameters": "all", "damping": 0.05, "iterations": 200}
    assert note["risk"] == "validation"
    from moso.run.training import network

    model = network(job, 0, "reference-00", "final")
    solver = Solver("all", damping=0.05, weight_decay=job.configuration.surrogate.weight_decay)
    expected = risk_influences(
        model, job.data.train.evaluation_view(), np.arange(len(job.data.train)), risk=job.risk(), solver=solver
    )
    assert run.scores()["influence"] == pytest.approx(expected)


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(errors.SettingInvalid, match="damping"):
        find_score("influence").resolved({"damping": -1})
