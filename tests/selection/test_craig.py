"""`craig` against the definition on gradients written out, brute force, and apricot."""

from itertools import combinations

import apricot
import numpy as np
import pytest
from last_layer import given, outputs, written_out

import moso
from refusals import refusal


def distances(rows):
    return np.linalg.norm(rows[:, None] - rows[None], axis=2)


def error(far, chosen):
    """The bound that CRAIG minimises: every sample's distance to its nearest kept gradient, summed."""
    return far[:, list(chosen)].min(axis=1).sum()


@pytest.mark.parametrize("seed", range(5))
def test_each_class_is_covered_as_apricot_covers_it(seed):
    labels, features, probabilities = outputs(90, seed=seed)
    kept = moso.select(None, ratio=0.6, selector="craig", **given(labels, features, probabilities))
    rows = written_out(labels, features, probabilities)
    for label in range(3):
        own, mine = np.flatnonzero(labels == label), kept[labels[kept] == label]
        far = distances(rows[own])
        theirs = apricot.FacilityLocationSelection(len(mine), metric="precomputed").fit(far.max() - far)
        assert error(far, np.searchsorted(own, mine)) == pytest.approx(error(far, theirs.ranking), rel=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_the_value_is_at_least_the_promised_share_of_the_optimum(seed):
    labels, features, probabilities = outputs(10, classes=1, seed=seed)
    probabilities = outputs(10, classes=4, seed=seed)[2]
    kept = moso.select(None, keep=3, selector="craig", **given(labels, features, probabilities))
    far = distances(written_out(labels, features, probabilities))
    value = {chosen: 10 * far.max() - error(far, chosen) for chosen in combinations(range(10), 3)}
    assert value[tuple(kept.tolist())] >= (1 - 1 / np.e) * max(value.values())


def test_weights_are_the_sizes_of_the_clusters_and_add_up_to_the_class():
    labels, features, probabilities = outputs(80, seed=3)
    kept = moso.select_weighted(None, ratio=0.7, selector="craig", **given(labels, features, probabilities))
    rows = written_out(labels, features, probabilities)
    for label in range(3):
        own, mine = np.flatnonzero(labels == label), labels[kept.positions] == label
        nearest = kept.positions[mine][distances(rows)[np.ix_(own, kept.positions[mine])].argmin(axis=1)]
        assert kept.weights[mine].tolist() == [(nearest == z).sum() for z in kept.positions[mine]]
        assert kept.weights[mine].sum() == len(own)


def test_the_weighted_gradient_is_as_near_as_the_distances_promise():
    labels, features, probabilities = outputs(60, classes=1, seed=1)
    probabilities = outputs(60, classes=5, seed=1)[2]
    kept = moso.select_weighted(None, ratio=0.8, selector="craig", **given(labels, features, probabilities))
    rows = written_out(labels, features, probabilities)
    off = np.linalg.norm(rows.sum(axis=0) - kept.weights @ rows[kept.positions])
    assert off <= error(distances(rows), kept.positions)


def test_a_twin_that_is_kept_stands_for_itself():
    labels, features = np.zeros(4, dtype=int), np.ones((4, 2), dtype=np.float32)
    kept = moso.select_weighted(None, keep=3, selector="craig", **given(labels, features, np.full((4, 2), 0.5)))
    assert kept.positions.tolist() == [0, 1, 2]
    assert kept.weights.tolist() == [2.0, 1.0, 1.0]


def test_settings_refuse_and_are_respected():
    labels, features, probabilities = outputs(30)
    every = given(labels, features, probabilities)
    plain = moso.select_weighted(None, ratio=0.5, selector="craig", settings={"weights": False}, **every)
    assert plain.weights is None
    assert plain.positions.tolist() == moso.select(None, ratio=0.5, selector="craig", **every).tolist()
    with refusal("setting-invalid", "weights", "maybe"):
        moso.select(None, ratio=0.5, selector="craig", weights="maybe", **every)


def test_classes_larger_than_the_matrix_can_be_are_refused():
    count = 20_001
    with refusal("method-impossible", "craig", count, 20_000):
        moso.select(
            None,
            ratio=0.5,
            selector="craig",
            **given(np.zeros(count, dtype=int), np.ones((count, 1)), np.ones((count, 1))),
        )
    half = given(np.arange(count) % 40, np.ones((count, 1)), np.full((count, 40), 1 / 40))
    with refusal("method-impossible", "craig", count, 20_000):
        moso.select(None, ratio=0.5, selector="craig", classes="together", **half)
