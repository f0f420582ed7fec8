"""Cheaper estimators against the formula itself: the mean over others' gradients times a sample's own."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch import nn

from moso.data.views import as_view
from moso.evidence import Estimator, PartitionTerms, TrajectoryPoint, step_terms
from moso.scores import agreement, moso_rank_score, moso_score, moso_standardised_score
from refusals import refusal

COUNT = 30


def problem():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.Tanh(), nn.Flatten(), nn.Linear(96, 7), nn.Linear(7, 3)
    )
    inputs, labels = torch.randn(COUNT, 1, 4, 4), torch.arange(COUNT) % 3
    model(inputs)
    view = as_view((inputs.numpy(), labels.numpy()))
    point = TrajectoryPoint(7, (0.1,), memory={name: value.clone() for name, value in model.state_dict().items()})
    return model, view, point


def gradients(model, view, names=None) -> np.ndarray:
    """One sample at a time, in float64."""
    model = model.double().eval()
    trained = [value for name, value in model.named_parameters() if names is None or name in names]
    rows = []
    for position in range(len(view)):
        image, label = view[position]
        loss = F.cross_entropy(model(image[None].double()), torch.tensor([label]))
        rows.append(torch.cat([part.flatten() for part in torch.autograd.grad(loss, trained)]).numpy())
    return np.stack(rows)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.97, 1.0])
def test_a_subsampled_product_is_the_mean_over_the_shares_other_samples(share):
    model, view, point = problem()
    estimator = Estimator("subsampled", mean_share=share, seed=3)
    inside = estimator.share(np.arange(COUNT), point.step)
    assert inside.sum() == max(2, round(share * COUNT))
    terms = step_terms(model, point, view, np.arange(COUNT), batch_size=8, estimator=estimator)
    rows = gradients(model, view)
    expected = [rows[[j for j in np.flatnonzero(inside) if j != z]].mean(axis=0) @ rows[z] for z in range(COUNT)]
    np.testing.assert_allclose(agreement(terms), 0.1 * np.array(expected), rtol=1e-3, atol=1e-5)
    assert (terms.squared_norm[0] > 0).tolist() == inside.tolist()


def test_subsampled_products_are_right_on_average_over_shares():
    model, view, point = problem()
    exact = agreement(step_terms(model, point, view, np.arange(COUNT)))
    draws = [
        agreement(step_terms(model, point, view, np.arange(COUNT), estimator=Estimator("subsampled", 0.3, seed=seed)))
        for seed in range(60)
    ]
    error = np.std(draws, axis=0) / len(draws) ** 0.5
    assert (np.abs(np.mean(draws, axis=0) - exact) < 5 * error).all()


def test_shares_are_addressed_by_seed_step_and_position():
    positions = np.arange(100, 200)
    one = Estimator("subsampled", 0.3, seed=1)
    assert (one.share(positions, 5) == one.share(positions, 5)).all()
    assert (one.share(positions, 5) != one.share(positions, 6)).any()
    assert (one.share(positions, 5) != Estimator("subsampled", 0.3, seed=2).share(positions, 5)).any()
    turned = one.share(positions[::-1], 5)
    assert (turned[::-1] == one.share(positions, 5)).all()


def test_all_of_the_data_or_room_for_everything_is_the_exact_estimator():
    model, view, point = problem()
    exact = step_terms(model, point, view, np.arange(COUNT))
    for estimator in (Estimator("subsampled", mean_share=1.0), Estimator("sketched", sketch_numbers=10_000)):
        found = step_terms(model, point, view, np.arange(COUNT), estimator=estimator)
        np.testing.assert_allclose(found.dot, exact.dot, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found.squared_norm, exact.squared_norm, rtol=1e-4)


def test_the_last_layer_is_the_exact_estimator_of_its_parameters():
    model, view, point = problem()
    exact = step_terms(model, point, view, np.arange(COUNT), parameters=lambda name: name.startswith("5."))
    found = step_terms(model, point, view, np.arange(COUNT), estimator="last-layer")
    np.testing.assert_allclose(found.dot, exact.dot, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(found.squared_norm, exact.squared_norm, rtol=1e-4)
    rows = gradients(model, view, ("5.weight", "5.bias"))
    expected = [np.delete(rows, z, axis=0).mean(axis=0) @ rows[z] for z in range(COUNT)]
    np.testing.assert_allclose(agreement(found), 0.1 * np.array(expected), rtol=1e-3, atol=1e-6)


def test_sketches_differ_from_step_to_step():
    model, view, point = problem()
    later = TrajectoryPoint(8, (0.1,), memory=point.memory)
    estimator = Estimator("sketched", sketch_numbers=60)
    one, again, other = (
        step_terms(model, at, view, np.arange(COUNT), estimator=estimator) for at in (point, point, later)
    )
    np.testing.assert_array_equal(one.dot, again.dot)
    assert not np.allclose(one.dot, other.dot)


HEAD = ("5.weight", "5.bias")
SHARE = Estimator("subsampled", mean_share=0.5, seed=3)


@pytest.mark.parametrize(
    ("estimator", "names", "form"),
    [
        (Estimator("exact"), None, "paper"),
        (Estimator("exact"), None, "centred"),
        (SHARE, None, "paper"),
        (Estimator("sketched", sketch_numbers=10_000), None, "paper"),
        (Estimator("sketched", sketch_numbers=10_000), None, "centred"),
        (Estimator("last-layer"), HEAD, "paper"),
        (Estimator("last-layer"), HEAD, "centred"),
    ],
    ids=lambda value: getattr(value, "name", value if isinstance(value, str) else ""),
)
def test_every_score_takes_every_estimators_terms(estimator, names, form):
    """Each score by hand: the mean gradient over the other samples looked at, times a sample's own (less the mean)."""
    model, view, point = problem()
    terms = PartitionTerms(20, [step_terms(model, point, view, np.arange(COUNT), estimator=estimator)])
    everybody = np.ones(COUNT, dtype=bool)
    inside = np.flatnonzero(estimator.share(np.arange(COUNT), point.step) if estimator is SHARE else everybody)
    rows, a = gradients(model, view, names), np.zeros(COUNT)
    for z in range(COUNT):
        others = rows[[j for j in inside if j != z]].mean(axis=0)
        a[z] = 0.1 * others @ (rows[z] - (rows.mean(axis=0) if form == "centred" else 0.0))
    N = COUNT if form == "paper" else COUNT - 1
    np.testing.assert_allclose(moso_score(terms, form), a * 20 / N, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(moso_standardised_score(terms, form), (a - a.mean()) / a.std(), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(moso_rank_score(terms, form), np.argsort(np.argsort(a)) / (COUNT - 1))


def test_the_centred_form_of_a_share_ranks_like_the_papers():
    model, view, point = problem()
    terms = PartitionTerms(20, [step_terms(model, point, view, np.arange(COUNT), estimator=SHARE)])
    for score in (moso_score, moso_standardised_score, moso_rank_score):
        assert spearmanr(score(terms, "paper"), score(terms, "centred")).statistic > 0.99


@pytest.mark.parametrize("name", ["exact", "subsampled", "sketched", "last-layer"])
def test_estimators_do_not_depend_on_the_batch_size_and_leave_the_model_as_it_was(name):
    model, view, point = problem()
    model.train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    found = [
        step_terms(model, point, view, np.arange(COUNT), batch_size=size, estimator=name) for size in (1, 7, COUNT)
    ]
    for other in found[1:]:
        np.testing.assert_allclose(found[0].dot, other.dot, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found[0].squared_norm, other.squared_norm, rtol=1e-4, atol=1e-6)
    assert model.training
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_what_makes_no_sense_is_refused():
    model, view, point = problem()
    with refusal("unknown-name", "guess"):
        step_terms(model, point, view, np.arange(COUNT), estimator="guess")
    with refusal("settings-conflict", "estimator", "moso.prune"):
        Estimator("in-run")
    with refusal("setting-invalid", "mean_share"):
        Estimator("subsampled", mean_share=0.0)
    with refusal("setting-invalid"):
        step_terms(model, point, view, np.arange(COUNT), estimator=Estimator("sketched", sketch_numbers=3))
