"""`infomax` against a dense solver, against brute force, and against apricot's greedy on the same objective."""

from itertools import combinations

import apricot
import numpy as np
import pytest
from scipy.optimize import brentq

import moso
from moso.selection.selectors.infomax import project


def cosines(features):
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    return unit @ unit.T


def sparse_cosines(features, neighbours):
    """K with every row's nearest, as an N x N array."""
    full = cosines(features.astype(np.float64))
    np.fill_diagonal(full, -np.inf)
    nearest = np.argsort(-full, axis=1)[:, :neighbours]
    likeness = np.zeros_like(full)
    np.put_along_axis(likeness, nearest, np.take_along_axis(full, nearest, axis=1), axis=1)
    return likeness


def literal(scores, likeness, budget, weight, iterations):
    worth = (scores - scores.min()) / (scores.max() - scores.min())
    x = np.full(len(scores), budget / len(scores))
    for _ in range(iterations):
        gradient = worth - weight * (likeness @ x + likeness.T @ x)
        raised = x * np.exp(gradient)
        c = brentq(lambda c, y=raised: np.minimum(1, c * y).sum() - budget, 0, 1e6, xtol=1e-13)
        x = np.minimum(1, c * raised)
    return set(np.argsort(-raised)[:budget])


def objective(scores, likeness, weight, kept):
    worth = (scores - scores.min()) / (scores.max() - scores.min())
    kept = list(kept)
    return worth[kept].sum() - weight * likeness[np.ix_(kept, kept)].sum()


@pytest.mark.parametrize(("neighbours", "weight", "iterations"), [(5, 0.3, 20), (8, 1.0, 5), (3, 0.0, 10)])
def test_the_sparse_solver_is_the_dense_one(neighbours, weight, iterations, make_evidence):
    features = make_evidence(200, dimension=6)["features"]
    scores = np.random.default_rng(1).normal(size=200)
    told = {"neighbours": neighbours, "weight": weight, "iterations": iterations}
    kept = moso.select(scores, ratio=0.6, selector="infomax", features=features, **told)
    assert set(kept) == literal(scores, sparse_cosines(features, neighbours), 80, weight, iterations)


def test_without_likeness_it_is_top(make_evidence):
    scores = np.random.default_rng(1).normal(size=60)
    kept = moso.select(scores, ratio=0.6, selector="infomax", features=make_evidence(60)["features"], weight=0)
    assert kept.tolist() == moso.select(scores, ratio=0.6, selector="top").tolist()


def test_it_comes_near_the_best_there_is():
    shares = []
    for seed in range(10):
        draw = np.random.default_rng(seed)
        features, scores = draw.normal(size=(12, 2)), draw.uniform(size=12)
        likeness = sparse_cosines(features.astype(np.float32), 3)
        kept = moso.select(scores, ratio=7 / 12, selector="infomax", features=features, neighbours=3, weight=0.5)
        every = [objective(scores, likeness, 0.5, subset) for subset in combinations(range(12), 5)]
        found = objective(scores, likeness, 0.5, kept)
        shares.append((found - np.mean(every)) / (max(every) - np.mean(every)))
    assert min(shares) > 0.7
    assert np.mean(shares) > 0.95


@pytest.mark.parametrize("seed", range(3))
def test_apricots_greedy_finds_nothing_much_better(seed):
    # Graph cut, sum_v sum_x K_vx - sum_xy K_xy, is this objective with K's column sums as scores.
    features = np.random.default_rng(seed).uniform(size=(200, 6))
    likeness = cosines(features)
    worth = likeness.sum(axis=0)
    theirs = apricot.GraphCutSelection(60, metric="precomputed", alpha=1.0, optimizer="naive").fit(likeness).ranking
    told = {"neighbours": 199, "weight": 1 / np.ptp(worth), "iterations": 1000}
    ours = moso.select(worth, ratio=0.7, selector="infomax", features=features, **told)
    top = moso.select(worth, ratio=0.7, selector="top")

    def cut(kept):
        return likeness[:, kept].sum() - likeness[np.ix_(kept, kept)].sum()

    assert cut(theirs) > cut(top)
    assert cut(ours) - cut(top) > 0.95 * (cut(theirs) - cut(top))


def test_parts_are_solved_one_by_one(make_evidence):
    every = make_evidence(90)
    scores = np.random.default_rng(0).uniform(size=90)
    kept = moso.select(scores, ratio=0.5, selector="infomax", features=every["features"], partition=30, weight=0)
    from moso.selection import Problem
    from moso.selection.blocks import blocks

    for where, part in blocks(Problem(scores, 45), 30, "infomax"):
        best = where[np.argsort(-scores[where], kind="stable")[: part.budget]]
        assert set(best) == set(kept) & set(where)


def test_the_projection_keeps_the_sum_and_the_bounds():
    draw = np.random.default_rng(0)
    for count, total in [(5, 1), (5, 4), (50, 20), (7, 7)]:
        values = draw.exponential(size=count) ** 4 + 1e-9
        x = project(values, total)
        assert x.sum() == pytest.approx(total)
        assert (x <= 1 + 1e-12).all()
        assert (np.argsort(values) == np.lexsort((values, x))).all()
