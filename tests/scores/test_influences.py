"""Influences on the parameters: against dense linear algebra, and against networks that were really trained without."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from moso.data.views import as_view
from moso.evidence.second_order import influences as module
from moso.evidence.second_order.curvature import Curvature
from moso.evidence.second_order.influences import influences
from moso.gradients import Factored
from moso.randomness import seeded
from moso.scores.opt import opt_scores
from moso.tasks import squared_error
from refusals import refusal

N, DECAY = 120, 1e-2


def digits(count=N):
    data = load_digits()
    return (data.data[:count] / 16).astype(np.float32), data.target[:count]


def fitted(weights, start=None):
    """Softmax regression at the optimum of `mean of weights * losses + decay / 2 |w|^2`, in float64."""
    inputs, labels = (torch.from_numpy(part) for part in digits())
    model = nn.Linear(64, 10).double()
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    if start is not None:
        model.load_state_dict(start)
    search = torch.optim.LBFGS(
        model.parameters(), max_iter=200, tolerance_grad=1e-9, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    def risk():
        search.zero_grad()
        losses = nn.functional.cross_entropy(model(inputs.double()), labels, reduction="none")
        value = (weights * losses).mean() + DECAY / 2 * sum(part.square().sum() for part in model.parameters())
        value.backward()
        return value

    search.step(risk)
    return model


@pytest.fixture(scope="module")
def regression():
    return fitted(torch.ones(N))


def flat(model):
    return torch.cat([model.weight, model.bias[:, None]], 1).detach().flatten().double()


def dense(model, inputs, labels, decay, share=0.0):
    """1/N H^-1 g_z with H from autograd, all in float64."""
    inputs, labels = torch.from_numpy(inputs).double(), torch.from_numpy(labels)

    def losses(parameters):
        matrix = parameters.view(10, -1)
        return nn.functional.cross_entropy(inputs @ matrix[:, :-1].T + matrix[:, -1], labels, reduction="none")

    hessian = torch.func.hessian(lambda parameters: losses(parameters).mean())(flat(model))
    damped = hessian + (decay + share * hessian.trace() / len(hessian)) * torch.eye(len(hessian)).double()
    gradients = torch.func.jacrev(losses)(flat(model))
    return torch.linalg.solve(damped, gradients.T).T.numpy() / len(inputs)


def test_it_is_the_definition(regression):
    inputs, labels = digits()
    for decay, share in [(DECAY, 0.0), (0.0, 0.1)]:
        found = influences(
            nn.Linear(64, 10), as_view((inputs, labels)), np.arange(N), state=regression.float().state_dict(),
            numbers=1000, damping=share, weight_decay=decay,
        )  # fmt: skip
        expected = dense(regression, inputs, labels, decay, share)
        assert np.abs(found - expected).max() < 1e-3 * np.abs(expected).max()


def test_it_is_where_training_without_the_sample_leads(regression):
    inputs, labels = digits()
    model = regression.float()
    found = influences(model, as_view((inputs, labels)), np.arange(N), numbers=1000, damping=0, weight_decay=DECAY)
    whole = flat(regression)
    cosines, lengths = [], []
    for z in range(0, N, 12):
        weights = torch.ones(N)
        weights[z] = 0
        truth = (
            flat(fitted(weights, {name: part.double() for name, part in model.state_dict().items()})) - whole
        ).numpy()
        cosines.append(found[z] @ truth / np.linalg.norm(found[z]) / np.linalg.norm(truth))
        lengths.append(np.linalg.norm(truth) / np.linalg.norm(found[z]))
    # The first order misses that the sample no longer holds the parameters back: all true moves are somewhat longer.
    assert min(cosines) > 0.98
    assert 1 < min(lengths) < max(lengths) < 2


def test_sets_move_the_parameters_by_the_sum_of_their_members(regression):
    inputs, labels = digits()
    found = influences(
        regression.float(), as_view((inputs, labels)), np.arange(N), numbers=1000, damping=0, weight_decay=DECAY
    )
    gone = np.random.default_rng(0).choice(N, 10, replace=False)
    weights = torch.ones(N)
    weights[gone] = 0
    truth = (flat(fitted(weights)) - flat(regression)).numpy()
    total = found[gone].sum(0)
    assert total @ truth / np.linalg.norm(total) / np.linalg.norm(truth) > 0.95


def test_projected_lengths_are_right_on_average(regression):
    inputs, labels = digits()
    told = {"damping": 0.1, "weight_decay": DECAY}
    whole = influences(regression.float(), as_view((inputs, labels)), np.arange(N), numbers=1000, **told)
    few = influences(regression.float(), as_view((inputs, labels)), np.arange(N), numbers=128, **told)
    assert few.shape == (N, 128)
    shares = opt_scores(few) / opt_scores(whole)
    assert abs(shares.mean() - 1) < 0.05
    assert shares.std() < 2 * 128**-0.5
    # Products are, too, the more seeds the nearer: sums of influences are what selection looks at.
    products = np.zeros((N, N))
    errors = []
    for seed in range(4):
        few = influences(
            regression.float(),
            as_view((inputs, labels)),
            np.arange(N),
            numbers=128,
            seed=seed,
            curvature_samples=N,
            **told,
        )
        products += few @ few.T
        errors.append(np.linalg.norm(products / (seed + 1) - whole @ whole.T) / np.linalg.norm(whole @ whole.T))
    assert errors[3] < 0.65 * errors[0]


def test_two_small_matrices_stand_for_the_hessian_of_a_large_layer(regression, monkeypatch):
    inputs, labels = digits()
    told = {"numbers": 650, "damping": 0.1, "weight_decay": DECAY}
    exact = influences(regression.float(), as_view((inputs, labels)), np.arange(N), **told)
    monkeypatch.setattr(module, "SOLVED", 0)
    near = influences(regression.float(), as_view((inputs, labels)), np.arange(N), **told)
    assert np.corrcoef(opt_scores(near), opt_scores(exact))[0, 1] > 0.9


def test_the_product_of_two_is_exact_where_the_curvature_is_one():
    # All samples with the same probabilities: then H = (diag p - p p^T) x mean(a a^T), without a remainder.
    with seeded(0, "test"):
        a, labels = torch.randn(40, 5).double(), torch.arange(40) % 3
    p = torch.tensor([0.5, 0.3, 0.2]).double().expand(40, 3)
    factors = Factored(a, p - nn.functional.one_hot(labels, 3), bias=True)
    curvature = Curvature.of(factors, exact=True, damping=1e-9)
    left, right = curvature.sides()
    directions = torch.eye(18).double().view(18, 3, 6)
    # diag(p) - p p^T has no curvature along (1, 1, 1), where both are nothing but damping.
    directions = directions - directions.mean(1, keepdim=True)
    again = (curvature.matrix() @ (left @ directions @ right).flatten(1).T).T
    assert torch.allclose(again, directions.flatten(1), atol=1e-3)


@pytest.mark.parametrize("exact", [True, False])
def test_the_matrix_is_the_sum_over_samples(exact):
    with seeded(0, "test"):
        a, logits, labels = torch.randn(60, 7), 3 * torch.randn(60, 4), torch.arange(60) % 4
        right = torch.randn(5, 4, 8)
    p, one = logits.softmax(1), torch.cat([a, torch.ones(60, 1)], 1)
    b = p - nn.functional.one_hot(labels, 4)
    curvature = Curvature.of(Factored(a, b, bias=True), exact=exact, damping=0.01, weight_decay=0.1)
    by_outputs = [
        torch.diag(own) - torch.outer(own, own) if exact else torch.outer(g, g) for own, g in zip(p, b, strict=True)
    ]
    literal = sum(torch.kron(h, torch.outer(x, x)) for h, x in zip(by_outputs, one, strict=True)) / 60
    literal += (0.1 + 0.01 * literal.trace() / 32) * torch.eye(32)
    assert torch.allclose(curvature.matrix(), literal, atol=1e-5)
    solved = torch.linalg.solve(literal.double(), right.flatten(1).double().T).T
    assert torch.allclose(curvature.solve(right).flatten(1).double(), solved, atol=1e-4 * float(solved.abs().max()))


def test_where_nothing_is_curved_the_weight_decay_is_all():
    factors = Factored(torch.randn(6, 2), torch.zeros(6, 3), bias=False)
    curvature = Curvature.of(factors, exact=True, damping=0.1, weight_decay=0.5)
    right = torch.zeros(2, 3, 2)
    right[1] = 1
    left, other = curvature.sides()
    assert torch.allclose(curvature.solve(right), right / 0.5)
    assert torch.allclose(left @ right @ other, right / 0.5)


@pytest.mark.parametrize("parameters", ["last-layer", "all"])
def test_what_follows_from_the_definition(parameters):
    """Twins are twins, learned samples move nothing, and neither order nor batch size matters."""
    inputs, labels = digits()
    inputs[7], labels[7] = inputs[3], labels[3]
    with seeded(0, "test"):
        model = nn.Sequential(nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 10))
    told = {"parameters": parameters, "numbers": 100, "curvature_samples": N}
    view = as_view((inputs, labels))
    found = influences(model, view, np.arange(N), **told)
    assert found.dtype == np.float32
    assert found.shape[1] <= 100
    assert np.allclose(found[3], found[7], atol=1e-6 * np.abs(found).max())
    order = np.random.default_rng(0).permutation(N)
    assert np.allclose(
        influences(model, view, order, batch_size=17, **told), found[order], atol=1e-3 * np.abs(found).max()
    )
    assert not np.allclose(influences(model, view, np.arange(N), seed=1, **told), found, atol=0.1 * np.abs(found).max())


def test_the_network_is_left_as_it_was():
    inputs, labels = digits(20)
    model = nn.Sequential(nn.Linear(64, 12), nn.BatchNorm1d(12), nn.Linear(12, 10)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    influences(model, as_view((inputs, labels)), np.arange(20))
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_other_losses_take_the_fisher_matrix():
    draw = np.random.default_rng(0)
    inputs, targets = draw.normal(size=(50, 4)).astype(np.float32), draw.normal(size=50).astype(np.float32)
    with seeded(0, "test"):
        model = nn.Linear(4, 1)
    found = influences(
        model,
        as_view((inputs, targets), own_loss=squared_error),
        np.arange(50),
        loss=squared_error,
        damping=0.1,
        numbers=9,
    )
    residual = 2 * (model(torch.from_numpy(inputs)).detach().numpy()[:, 0] - targets)
    gradients = np.column_stack([residual[:, None] * inputs, residual])
    fisher = gradients.T @ gradients / 50
    damped = fisher + 0.1 * np.trace(fisher) / 5 * np.eye(5)
    expected = np.linalg.solve(damped, gradients.T).T / 50
    assert np.allclose(found, expected, atol=1e-3 * np.abs(expected).max())


def test_what_cannot_be_is_refused():
    view = as_view(digits(4))
    with refusal("data-empty"):
        influences(nn.Linear(64, 10), view, np.arange(0))
    broken = nn.Linear(64, 10)
    nn.init.constant_(broken.weight, torch.nan)
    with refusal("values-not-finite", 0):
        influences(broken, view, np.arange(4), parameters="all")
    with refusal("setting-invalid", 0):
        influences(nn.Linear(64, 10), view, np.arange(4), damping=0)
