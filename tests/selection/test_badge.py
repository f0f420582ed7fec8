"""`badge` against k-means++ on gradients written out: the same draws, and the same frequencies as scikit-learn's."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from last_layer import given, outputs, written_out
from sklearn.cluster import kmeans_plusplus

import moso
from moso.randomness import uniforms
from moso.selection import Features, Problem
from moso.selection.blocks import blocks
from moso.selection.selectors.by_gradient import badge as file
from moso.selection.selectors.by_gradient.badge import plus_plus
from moso.selection.selectors.by_gradient.factored_gradients import FactoredGradients


def predicted_rows(features, probabilities):
    return written_out(probabilities.argmax(axis=1), features, probabilities)


def slow_draws(rows, draws):
    """The centres with every distance computed anew; the first is the longest."""
    centres = [int(np.argmax(np.linalg.norm(rows, axis=1)))]
    while len(centres) < len(draws):
        squared = [min(np.square(x - rows[c]).sum() for c in centres) for x in rows]
        share = np.cumsum(squared) / np.sum(squared)
        centres.append(int(np.argmax(share > draws[len(centres)])))
    return centres


def draws_of(problem, seed):
    return uniforms(np.arange(problem.budget, dtype=np.uint64), seed, "badge", int(problem.keys[0]))


@pytest.mark.parametrize("seed", range(6))
def test_the_same_draws_give_the_centres_of_the_definition(seed):
    labels, features, probabilities = outputs(40, seed=seed)
    kept = moso.select(None, keep=15, selector="badge", seed=seed, **given(labels, features, probabilities))
    draws = draws_of(Problem(np.zeros(40), 15), seed)
    assert set(kept) == set(slow_draws(predicted_rows(features, probabilities), draws))


def probabilities_of_sets(rows, count):
    """The exact probability of every set of centres, the first of them any sample."""
    far = np.square(np.linalg.norm(rows[:, None] - rows[None], axis=2))
    found = Counter()
    for order in permutations(range(len(rows)), count):
        chance = 1 / len(rows)
        for step in range(1, count):
            nearest = far[list(order[:step])].min(axis=0)
            chance *= nearest[order[step]] / nearest.sum()
        found[frozenset(order)] += chance
    return found


def test_sets_are_as_frequent_as_they_are_likely_and_as_frequent_as_scikit_learns():
    _, features, probabilities = outputs(6, seed=2)
    rows, tries = predicted_rows(features, probabilities), 4000
    exact = probabilities_of_sets(rows, 3)
    assert sum(exact.values()) == pytest.approx(1)
    errors = probabilities.astype(float) - np.eye(3)[probabilities.argmax(axis=1)]
    gradients, draws = FactoredGradients(errors, features.astype(float)), np.random.default_rng(0).random((tries, 3))
    ours = Counter(frozenset(plus_plus(gradients, own, "random").tolist()) for own in draws)
    theirs = Counter(
        frozenset(kmeans_plusplus(rows, 3, random_state=seed, n_local_trials=1)[1].tolist()) for seed in range(tries)
    )
    for chosen, chance in exact.items():
        wide = 4.5 * np.sqrt(chance * (1 - chance) / tries) + 1e-3
        assert abs(ours[chosen] / tries - chance) < wide
        assert abs(theirs[chosen] / tries - chance) < wide


def test_the_first_is_the_largest_gradient():
    labels, features, probabilities = outputs(50, seed=4)
    longest = int(np.argmax(np.linalg.norm(predicted_rows(features, probabilities), axis=1)))
    for seed in range(5):
        kept = moso.select(None, keep=1, selector="badge", seed=seed, **given(labels, features, probabilities))
        assert kept.tolist() == [longest]


def test_labels_have_no_say():
    labels, features, probabilities = outputs(50)
    kept = moso.select(None, keep=20, selector="badge", **given(labels, features, probabilities))
    without = moso.select(None, keep=20, selector="badge", **given(None, features, probabilities))
    assert kept.tolist() == without.tolist()


def test_twins_are_taken_only_when_nothing_else_is_left():
    features = np.array([[1.0], [1.0], [2.0], [2.0], [3.0]])
    probabilities = np.full((5, 2), 0.5)
    kept = moso.select(None, keep=3, selector="badge", **given(None, features, probabilities))
    assert sorted(features[kept, 0]) == [1.0, 2.0, 3.0]
    assert len(moso.select(None, keep=5, selector="badge", **given(None, features, probabilities))) == 5


def test_gradients_that_are_all_zero_are_taken_by_id():
    kept = moso.select(None, keep=3, selector="badge", **given(None, np.zeros((6, 2)), np.full((6, 2), 0.5)))
    assert kept.tolist() == [0, 1, 2]


def test_blocks_are_drawn_from_one_by_one_and_rows_computed_when_asked_for_say_the_same(monkeypatch):
    labels, features, probabilities = outputs(90)
    every = given(labels, features, probabilities)
    kept = moso.select(None, ratio=0.7, selector="badge", block=40, **every)
    problem = Problem(np.zeros(90), 27, rows={"features": Features(features)})
    rows = predicted_rows(features, probabilities)
    for where, part in blocks(problem, 40, "badge"):
        assert set(where[slow_draws(rows[where], draws_of(part, 0))]) == set(kept) & set(where)
    monkeypatch.setattr(file, "KEPT", 10)
    assert moso.select(None, ratio=0.7, selector="badge", block=40, **every).tolist() == kept.tolist()
