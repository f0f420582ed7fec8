"""`d2` against the authors' algorithm on a dense graph, sample by sample."""

import numpy as np
import pytest

import moso
from moso.selection import Features, Problem
from moso.selection.selectors.d2 import D2Settings, d2


def literal(features, scores, budget, settings):
    """The authors' algorithm with an N x N graph: all distances, all edges, an argmax over all samples a step."""
    x = features.astype(np.float64)
    count = len(x)
    far = np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=2))
    joined = np.zeros((count, count), dtype=bool)
    for i in range(count):
        for j in [j for j in np.argsort(far[i], kind="stable") if j != i][: settings.neighbours]:
            joined[i, j] = joined[j, i] = True
    power = 2 if settings.squared else 1
    density = np.zeros(count)
    for i in range(count):
        messages = np.exp(-settings.gamma_forward * far[i] ** power) * np.maximum(scores, 1e-7)
        density[i] = scores[i] + messages[joined[i]].sum()
    kept = []
    while len(kept) < budget:
        k = max((i for i in range(count) if i not in kept), key=lambda i: (density[i], -i))
        kept.append(k)
        density[joined[k]] -= np.exp(-settings.gamma * far[k][joined[k]] ** power) * density[k]
    return kept


@pytest.mark.parametrize(
    "settings",
    [
        D2Settings(),
        D2Settings(neighbours=3, gamma=0.0),
        D2Settings(gamma=0.5, gamma_forward=0.2),
        D2Settings(squared=True),
    ],
    ids=str,
)
def test_two_hundred_points_are_kept_in_the_order_of_the_source(settings, make_evidence):
    features = make_evidence(200, dimension=3)["features"]
    scores = np.random.default_rng(1).gamma(1.0, size=200)
    problem = Problem(scores, 150, rows={"features": Features(features)})
    assert d2(problem, settings).tolist() == literal(features, scores, 150, settings)


def test_scores_of_nothing_still_send_a_message():
    # A far clump of samples that were never forgotten: only the least message says which of them have near neighbours.
    draw = np.random.default_rng(0)
    features = np.concatenate([draw.normal(size=(40, 2)), 50 + draw.normal(size=(40, 2))]).astype(np.float32)
    scores = np.repeat([1.0, 0.0], 40) * draw.uniform(1, 5, size=80)
    settings = D2Settings(neighbours=4, gamma=5.0)
    problem = Problem(scores, 60, rows={"features": Features(features)})
    assert d2(problem, settings).tolist() == literal(features, scores, 60, settings)


def test_values_below_zero_raise_their_neighbours():
    # gamma = 0 discounts neighbours in full, so that soon all values are below zero and some rise again.
    features = np.random.default_rng(3).normal(size=(60, 2)).astype(np.float32)
    scores = np.random.default_rng(4).uniform(size=60)
    settings = D2Settings(neighbours=6, gamma=0.0)
    problem = Problem(scores, 60, rows={"features": Features(features)})
    assert d2(problem, settings).tolist() == literal(features, scores, 60, settings)


def test_only_the_order_of_shifted_scores_matters_below_zero():
    features = np.random.default_rng(0).normal(size=(50, 2))
    scores = np.random.default_rng(1).uniform(size=50)
    scores -= scores.min()
    kept = moso.select(scores, ratio=0.5, selector="d2", features=features)
    assert moso.select(scores - 7, ratio=0.5, selector="d2", features=features).tolist() == kept.tolist()


def test_far_apart_it_is_top():
    scores = np.random.default_rng(0).uniform(size=50)
    features = np.random.default_rng(1).normal(size=(50, 2)) * 1e4
    kept = moso.select(scores, ratio=0.5, selector="d2", features=features)
    assert kept.tolist() == moso.select(scores, ratio=0.5, selector="top").tolist()


def test_of_two_alike_one_stays_first():
    # Two clumps of ten; every sample of the first scores higher than any of the second, and still both are kept from.
    features = np.repeat([[0.0, 0.0], [9.0, 9.0]], 10, axis=0) + np.random.default_rng(0).normal(size=(20, 2)) * 0.1
    scores = np.repeat([1.0, 0.9], 10) + np.arange(20) * 1e-4
    kept = moso.select(scores, ratio=0.9, selector="d2", features=features, gamma=0.1, neighbours=9)
    assert sorted(kept // 10) == [0, 1]
    assert moso.select(scores, ratio=0.9, selector="top").max() < 10
