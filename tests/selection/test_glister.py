"""`glister` against the exact one-step loss of softmax regression, and against a slow restatement with its update."""

import numpy as np
import pytest
from last_layer import given
from scipy.special import log_softmax, softmax

import moso
from moso.selection.selectors.by_gradient.glister import GlisterSettings


def regression(count=10, classes=3, width=4, seed=0, kinds=0):
    """Softmax regression in the middle of training: weights, inputs, labels; `kinds` > 0 repeats so many samples."""
    draw = np.random.default_rng(seed)
    weights = 0.3 * draw.normal(size=(classes, width))
    inputs, labels = draw.normal(size=(count, width)), draw.integers(0, classes, count)
    if kinds:
        repeated = np.arange(count) % kinds
        inputs, labels = inputs[repeated] + 0.01 * draw.normal(size=(count, width)), labels[repeated]
    inputs = inputs.astype(np.float32).astype(np.float64)
    return weights, inputs, labels


def loss(weights, inputs, labels):
    return -log_softmax(inputs @ weights.T, axis=1)[np.arange(len(labels)), labels].mean()


def gradient(weights, inputs, labels):
    """The gradient of every sample, [samples, classes, width]."""
    errors = softmax(inputs @ weights.T, axis=1) - np.eye(len(weights))[labels]
    return errors[:, :, None] * inputs[:, None, :]


def step_length(settings, inputs, labels, budget):
    return settings.rate * len(np.unique(labels)) / (budget * np.square(inputs).sum(axis=1).mean())


def true_greedy(weights, inputs, labels, budget, eta):
    """Adds the sample whose step leaves the smallest exact loss."""
    own, kept, moved = gradient(weights, inputs, labels), [], np.zeros_like(weights)
    for _ in range(budget):
        losses = [
            np.inf if z in kept else loss(weights - eta * (moved + own[z]), inputs, labels) for z in range(len(labels))
        ]
        kept.append(int(np.argmin(losses)))
        moved = moved + own[kept[-1]]
    return kept


def slow_taylor(weights, inputs, labels, budget, eta, rounds):
    """Taylor's gains with everything written out, and the update after every round."""
    own, kept, moved = gradient(weights, inputs, labels), [], np.zeros_like(weights)
    for part in np.array_split(np.arange(budget), min(rounds, budget)):
        mean = gradient(weights - eta * moved, inputs, labels).mean(axis=0)
        gains = np.einsum("ncd,cd->n", own, mean)
        gains[kept] = -np.inf
        taken = np.argsort(-gains, kind="stable")[: len(part)]
        kept += taken.tolist()
        moved = moved + own[taken].sum(axis=0)
    return kept


def selected(weights, inputs, labels, budget, **settings):
    every = given(labels, inputs.astype(np.float32), softmax(inputs @ weights.T, axis=1).astype(np.float32))
    return moso.select(None, keep=budget, selector="glister", settings={"epsilon": 0.0, **settings}, **every)


@pytest.mark.parametrize("seed", range(10))
def test_small_steps_take_what_the_exact_loss_takes(seed):
    weights, inputs, labels = regression(seed=seed)
    settings = GlisterSettings(rate=0.01, rounds=5)
    kept = selected(weights, inputs, labels, 5, rate=0.01, rounds=5)
    eta = step_length(settings, inputs, labels, 5)
    assert set(kept) == set(true_greedy(weights, inputs, labels, 5, eta))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rounds", [1, 4, 15])
def test_large_steps_take_what_taylor_with_its_update_takes(seed, rounds):
    weights, inputs, labels = regression(60, seed=seed)
    kept = selected(weights, inputs, labels, 20, rate=5.0, rounds=rounds)
    eta = step_length(GlisterSettings(rate=5.0), inputs, labels, 20)
    assert set(kept) == set(slow_taylor(weights, inputs, labels, 20, eta, rounds))


def test_the_update_does_better_than_a_ranking_where_samples_repeat():
    better = []
    for seed in range(10):
        weights, inputs, labels = regression(60, seed=seed, kinds=12)
        eta = step_length(GlisterSettings(rate=20.0), inputs, labels, 15)
        own = gradient(weights, inputs, labels)
        kept = [selected(weights, inputs, labels, 15, rate=20.0, rounds=rounds) for rounds in (1, 15)]
        losses = [loss(weights - eta * own[one].sum(axis=0), inputs, labels) for one in kept]
        better.append(losses[1] < losses[0])
    assert all(better)


def test_a_round_looks_at_a_random_part_and_still_fills_the_budget():
    weights, inputs, labels = regression(300, seed=2)
    every = given(labels, inputs.astype(np.float32), softmax(inputs @ weights.T, axis=1).astype(np.float32))
    kept = [
        moso.select(None, keep=60, selector="glister", settings={"epsilon": 0.5}, seed=seed, **every).tolist()
        for seed in (0, 0, 1)
    ]
    assert [len(one) for one in kept] == [60, 60, 60]
    assert kept[0] == kept[1] != kept[2]


def test_fewer_judges_are_a_random_part_of_the_samples():
    weights, inputs, labels = regression(200, seed=3)
    every = given(labels, inputs.astype(np.float32), softmax(inputs @ weights.T, axis=1).astype(np.float32))
    some = {"judges": 20, "epsilon": 0.0, "rate": 0.01}
    kept = [moso.select(None, keep=50, selector="glister", settings=some, seed=s, **every).tolist() for s in (0, 1)]
    assert kept[0] != kept[1]


def test_features_of_zero_are_taken_by_id():
    labels = np.array([0, 1, 0, 1])
    kept = moso.select(None, keep=2, selector="glister", **given(labels, np.zeros((4, 2)), np.full((4, 2), 0.5)))
    assert kept.tolist() == [0, 1]
