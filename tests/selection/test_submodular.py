"""`facility-location` and `graph-cut`: brute force, the greedy rule restated, apricot; dense and on the graph."""

from itertools import combinations

import apricot
import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

import moso
from moso.selection import Features
from moso.selection.selectors.facility_location import sparse_cover
from moso.selection.selectors.graph_cut import dense_cut, sparse_cut
from moso.selection.similarity import cosine_graph, cosine_matrix
from refusals import refusal

SELECTORS = ("facility-location", "graph-cut")


def cosines(features):
    """All pairs in float64: negative ones are 0, a sample is like itself."""
    unit = features.astype(np.float64)
    length = np.linalg.norm(unit, axis=1, keepdims=True)
    found = np.maximum(np.divide(unit, length, where=length > 0, out=np.zeros_like(unit)), -np.inf)
    found = np.clip(found @ found.T, 0, 1)
    np.fill_diagonal(found, 1)
    return found


def value(selector, likeness, kept, weight=2.0):
    kept = list(kept)
    if not kept:
        return 0.0
    if selector == "facility-location":
        return likeness[:, kept].max(axis=1).sum()
    return weight * likeness[:, kept].sum() - likeness[np.ix_(kept, kept)].sum()


def gains_of(selector, likeness, kept, weight=2.0):
    """What every sample would add to what is kept, computed anew; -inf for what is kept already."""
    before = value(selector, likeness, kept, weight)
    every = [value(selector, likeness, [*kept, j], weight) - before for j in range(len(likeness))]
    return np.where(np.isin(np.arange(len(likeness)), kept), -np.inf, every)


def made(count, seed=0, dimension=4):
    return np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)


def kept_of(selector, features, count, **told):
    ratio = 1 - count / len(features)
    return moso.select(None, ratio=ratio, selector=selector, features=features, classes="together", **told)


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("seed", range(6))
def test_the_value_is_at_least_1_minus_1_over_e_of_the_best_there_is(selector, seed):
    features = made(10, seed, dimension=3)
    likeness = cosines(features)
    for count in (2, 3, 5):
        best = max(value(selector, likeness, one) for one in combinations(range(10), count))
        found = value(selector, likeness, kept_of(selector, features, count))
        assert (1 - 1 / np.e) * best <= found <= best + 1e-6


def check_greedy(selector, features, count, **told):
    """Every choice has the largest gain, but for rounding, and the choices before it are kept by a larger ratio."""
    likeness, kept = cosines(features), []
    for size in range(1, count + 1):
        (chosen,) = set(kept_of(selector, features, size, **told).tolist()) - set(kept)
        gains = gains_of(selector, likeness, kept, told.get("weight", 2.0))
        assert gains[chosen] >= gains.max() - 1e-5
        assert gains[chosen] >= -1e-5  # monotone
        kept.append(chosen)


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("weight", [2.0, 3.5])
def test_every_choice_is_the_largest_gain(selector, weight):
    told = {"weight": weight} if selector == "graph-cut" else {}
    check_greedy(selector, made(40), 40, **told)


@pytest.mark.parametrize("selector", SELECTORS)
def test_a_graph_with_all_neighbours_is_the_dense_matrix(selector):
    features = made(60, seed=3)
    dense = kept_of(selector, features, 20)
    assert kept_of(selector, features, 20, dense=1, neighbours=59).tolist() == dense.tolist()


@pytest.mark.parametrize("neighbours", [3, 10])
def test_the_graph_has_the_pairs_of_which_one_is_near_to_the_other(neighbours):
    features = made(50, seed=1)
    full = cosines(features)
    ranked = np.argsort(-(full + 2 * np.eye(50)), axis=1)[:, 1 : neighbours + 1]  # of the clipped, so compare values
    found = cosine_graph(Features(features), neighbours).toarray()
    assert (found == found.T).all()
    assert (found.diagonal() == 1).all()
    near = np.zeros_like(full, dtype=bool)
    np.put_along_axis(near, ranked, True, axis=1)
    expected = np.where(near | near.T | np.eye(50, dtype=bool), full, 0)
    assert np.allclose(found, expected, atol=1e-6)


def apricots(selector, likeness, count):
    """The greedy choice of apricot on our similarities, whose ties we break otherwise."""
    told = {"metric": "precomputed", "optimizer": "naive"}
    if selector == "facility-location":
        fitted = apricot.FacilityLocationSelection(count, **told).fit(likeness)
    else:
        fitted = apricot.GraphCutSelection(count, alpha=2.0, **told).fit(likeness)
    return fitted.ranking.tolist()


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("seed", range(3))
def test_apricot_chooses_the_same_on_all_pairs(selector, seed):
    features = made(120, seed, dimension=6)
    likeness = cosine_matrix(Features(features)).astype(np.float64)
    assert set(kept_of(selector, features, 30)) == set(apricots(selector, likeness, 30))


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("seed", range(3))
def test_apricot_chooses_the_same_on_the_graph(selector, seed):
    """Its own `n_neighbors` fails here (numba wants other integers than scipy gives), so it is given our graph."""
    features = made(120, seed, dimension=6)
    graph = cosine_graph(Features(features), 8)
    theirs = csr_matrix(graph.astype(np.float64))
    theirs.indices, theirs.indptr = theirs.indices.astype(np.int32), theirs.indptr.astype(np.int32)
    found = sparse_cover(graph, 30) if selector == "facility-location" else sparse_cut(graph, 30, 2.0)
    assert set(found) == set(apricots(selector, theirs, 30))
    assert set(kept_of(selector, features, 30, dense=1, neighbours=8)) == set(found)


@pytest.mark.parametrize("selector", SELECTORS)
def test_each_class_is_covered_by_itself_with_its_quota(selector):
    features, labels = made(60), np.repeat([0, 1, 2], [30, 20, 10])
    kept = moso.select(None, ratio=0.5, selector=selector, features=features, labels=labels)
    assert np.bincount(labels[kept]).tolist() == [15, 10, 5]
    for label, count in enumerate((15, 10, 5)):
        own = np.flatnonzero(labels == label)
        assert set(kept[labels[kept] == label]) == set(own[kept_of(selector, features[own], count)])
    equal = moso.select(None, ratio=0.5, selector=selector, features=features, labels=labels, classes="balanced")
    assert np.bincount(labels[equal]).tolist() == [10, 10, 10]


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("dense", [1, 4096])
def test_duplicates_and_zero_rows_are_no_trouble_and_ties_go_to_the_lower_id(selector, dense):
    same = np.ones((6, 3), dtype=np.float32)
    assert kept_of(selector, same, 2, dense=dense).tolist() == [0, 1]
    zeros = np.zeros((6, 3), dtype=np.float32)
    assert kept_of(selector, zeros, 3, dense=dense).tolist() == [0, 1, 2]
    pairs = np.repeat(np.eye(3, dtype=np.float32), 2, axis=0)
    assert kept_of(selector, pairs, 3, dense=dense).tolist() == [0, 2, 4]
    assert kept_of(selector, made(1), 1, dense=dense).tolist() == [0]


@pytest.mark.parametrize("selector", SELECTORS)
def test_a_class_of_one_sample_keeps_it(selector):
    labels = np.array([0, 0, 0, 1])
    told = {"features": made(4), "labels": labels, "classes": "balanced"}
    assert 3 in moso.select(None, ratio=0.5, selector=selector, **told)


@pytest.mark.parametrize("selector", SELECTORS)
def test_features_that_are_not_numbers_are_refused(selector):
    features = made(5)
    features[3, 1] = np.nan
    with refusal("values-not-finite", 3):
        kept_of(selector, features, 2)


def test_without_the_weight_of_2_gains_still_fall_and_budgets_are_exact():
    likeness = cosine_matrix(Features(made(20)))
    assert len(set(dense_cut(likeness, 20, 0.0))) == 20
    graph = csr_array(likeness)
    assert sparse_cut(graph, 20, 0.5).tolist() == dense_cut(likeness, 20, 0.5).tolist()
