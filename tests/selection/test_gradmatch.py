"""`gradmatch` against a slow restatement, scikit-learn's matching pursuit and SciPy's non-negative least squares."""

import numpy as np
import pytest
from last_layer import given, outputs, written_out
from scipy.optimize import nnls
from sklearn.linear_model import orthogonal_mp_gram

import moso
from moso.selection.orders import shuffled
from moso.selection.problem import Problem
from moso.selection.selectors.by_gradient.gradmatch import matching_pursuit
from refusals import refusal


def augmented(rows, regularisation):
    """The regularised problem as a plain one: min |M w - t|^2, w >= 0."""
    own = regularisation * np.square(rows).sum() / len(rows)
    return np.vstack([rows.T, np.sqrt(own) * np.eye(len(rows))]), np.append(rows.sum(axis=0), np.zeros(len(rows)))


def slow_pursuit(rows, budget, regularisation):
    """Matching pursuit with SciPy's non-negative least squares on everything that was chosen, at every step."""
    matrix, target = augmented(rows, regularisation)
    chosen, weights = [], np.empty(0)
    while len(chosen) < budget:
        residual = rows.sum(axis=0) - weights @ rows[chosen] if chosen else rows.sum(axis=0)
        pull = rows @ residual
        pull[chosen] = -np.inf
        best = int(np.argmax(pull))
        if pull[best] <= 1e-9 * np.abs(rows @ rows.sum(axis=0)).max():
            break
        chosen.append(best)
        weights = nnls(matrix[:, chosen], target)[0]
        chosen, weights = [c for c, w in zip(chosen, weights, strict=True) if w > 0], weights[weights > 0]
    return chosen, weights


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("regularisation", [1e-4, 0.5])
def test_choices_and_weights_are_those_of_the_slow_pursuit(seed, regularisation):
    # Gradients in all directions, so that weights want to become negative and samples leave again.
    rows = np.random.default_rng(seed).normal(size=(25, 6)) + 0.3
    for budget in (1, 4, 9, 25):
        chosen, weights = matching_pursuit(rows @ rows.T, budget, regularisation)
        expected, expected_weights = slow_pursuit(rows, budget, regularisation)
        assert chosen.tolist() == expected
        assert weights == pytest.approx(expected_weights, rel=1e-5)
        assert (weights > 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_without_a_quota_it_ends_at_the_non_negative_least_squares(seed):
    rows = np.random.default_rng(seed).normal(size=(30, 5)) + 0.2
    chosen, weights = matching_pursuit(rows @ rows.T, 30, 0.1)
    found = np.zeros(30)
    found[chosen] = weights
    assert found == pytest.approx(nnls(*augmented(rows, 0.1))[0], abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_while_no_weight_is_negative_it_is_scikit_learns_matching_pursuit(seed):
    rows = np.abs(np.random.default_rng(seed).normal(size=(20, 40)))
    own = 0.5 * np.square(rows).sum() / 20
    inner = rows @ rows.T
    theirs = orthogonal_mp_gram(inner + own * np.eye(20), inner.sum(axis=1), n_nonzero_coefs=8)
    assert (theirs >= 0).all()
    chosen, weights = matching_pursuit(inner, 8, 0.5)
    assert set(chosen) == set(np.flatnonzero(theirs))
    assert weights == pytest.approx(theirs[chosen])


def test_the_match_gets_better_with_every_sample():
    rows = written_out(*outputs(40, classes=1, width=20))
    rows += np.random.default_rng(0).normal(size=rows.shape)
    errors = []
    for budget in range(1, 20):
        chosen, weights = matching_pursuit(rows @ rows.T, budget, 1e-3)
        errors.append(np.linalg.norm(rows.sum(axis=0) - weights @ rows[chosen]))
    assert (np.diff(errors) < 1e-9).all()


def test_classes_are_matched_one_by_one_on_gradients_that_are_never_written_out():
    labels, features, probabilities = outputs(60)
    kept = moso.select_weighted(None, ratio=0.5, selector="gradmatch", **given(labels, features, probabilities))
    rows, weights = written_out(labels, features, probabilities), dict(zip(kept.positions, kept.weights, strict=True))
    for label in range(3):
        own = np.flatnonzero(labels == label)
        mine = [z for z in kept.positions if labels[z] == label]
        chosen, expected = slow_pursuit(rows[own], len(mine), 0.5)
        assert set(own[chosen]) <= set(mine)
        assert [weights[z] for z in own[chosen]] == pytest.approx(expected, rel=1e-4)


def test_what_the_pursuit_leaves_open_is_drawn_at_random_with_weight_one():
    # Two opposite gradients: their sum is nothing, so nothing matches it.
    labels, features = np.zeros(6, dtype=int), np.ones((6, 1), dtype=np.float32)
    probabilities = np.tile([1.0, 0.0], (6, 1))  # every gradient is zero
    kept = moso.select_weighted(None, keep=4, selector="gradmatch", **given(labels, features, probabilities), seed=5)
    drawn = shuffled(Problem(np.zeros(6), 4, ids=np.arange(6)).keys, 5, "gradmatch")[:4]
    assert kept.positions.tolist() == sorted(drawn)
    assert kept.weights.tolist() == [1.0] * 4


def test_equal_gradients_share_the_class():
    labels, features = np.zeros(12, dtype=int), np.ones((12, 3), dtype=np.float32)
    probabilities = np.tile([0.7, 0.3], (12, 1))
    kept = moso.select_weighted(
        None,
        keep=4,
        selector="gradmatch",
        settings={"regularisation": 1e-6},
        **given(labels, features, probabilities),
    )
    assert kept.positions.tolist() == [0, 1, 2, 3]
    assert kept.weights == pytest.approx([3.0] * 4, rel=1e-4)


def test_a_class_that_is_too_large_is_refused_before_anything_is_read():
    count = 10_001
    labels, features, probabilities = np.zeros(count, dtype=int), np.ones((count, 1)), np.ones((count, 1))
    with refusal("method-impossible", "gradmatch", count, 10_000):
        moso.select(None, ratio=0.5, selector="gradmatch", **given(labels, features, probabilities))
