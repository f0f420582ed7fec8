"""`herding`: both rules and centres against their definitions, and the error of the mean against random selection."""

import numpy as np
import pytest
from scipy.optimize import minimize

import moso
from moso.selection import Features
from moso.selection.geometric_median import geometric_median


def literal(features, count, rule, centre=None):
    """The rule as it is written, with vectors."""
    features = features.astype(np.float64)
    mean = features.mean(axis=0) if centre is None else centre
    chosen, w, total = [], mean.copy(), np.zeros_like(mean)
    for t in range(count):
        best, found = np.inf, -1
        for z, x in enumerate(features):
            if z in chosen:
                continue
            cost = np.linalg.norm(mean - (total + x) / (t + 1)) if rule == "mean" else -(w @ x)
            if cost < best:
                best, found = cost, z
        chosen.append(found)
        total += features[found]
        w += mean - features[found]
    return chosen


@pytest.mark.parametrize("rule", ["mean", "welling"])
def test_each_class_is_herded_as_the_rule_says(rule):
    draw = np.random.default_rng(0)
    labels = np.repeat([0, 1], [40, 20])
    features = (draw.normal(size=(60, 6)) + 2).astype(np.float32)
    kept = moso.select(None, ratio=0.5, selector="herding", features=features, labels=labels, rule=rule)
    expected = {*literal(features[:40], 20, rule), *(40 + z for z in literal(features[40:], 10, rule))}
    assert set(kept) == expected


def test_both_rules_agree_where_features_are_of_one_length():
    features = np.random.default_rng(1).normal(size=(50, 5))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    one, other = (
        moso.select(None, ratio=0.7, selector="herding", features=features, classes="together", rule=rule)
        for rule in ("mean", "welling")
    )
    assert one.tolist() == other.tolist()


def mean_error(features, kept):
    return np.linalg.norm(features[kept].mean(axis=0) - features.mean(axis=0))


def test_the_error_of_the_mean_falls_faster_than_random_selections():
    features = np.random.default_rng(0).normal(size=(400, 8))
    errors = []
    for count in (5, 20, 80):
        kept = moso.select(None, ratio=1 - count / 400, selector="herding", features=features, classes="together")
        errors.append(mean_error(features, kept))
        drawn = [moso.select(None, ratio=1 - count / 400, selector="random", ids=range(400), seed=s) for s in range(5)]
        assert errors[-1] < 0.5 * min(mean_error(features, one) for one in drawn)
    # Four times as many: random selection's error halves.
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


def test_blocks_follow_the_mean_of_all():
    features = np.random.default_rng(0).normal(size=(300, 5))
    whole, parts = (
        moso.select(None, ratio=0.8, selector="herding", features=features, classes="together", block=block)
        for block in (300, 60)
    )
    assert len(parts) == 60
    assert whole.tolist() != parts.tolist()
    drawn = [moso.select(None, ratio=0.8, selector="random", ids=range(300), seed=s) for s in range(5)]
    assert mean_error(features, parts) < 0.5 * min(mean_error(features, one) for one in drawn)


def sum_of_distances(points, centre):
    return np.linalg.norm(points - centre, axis=1).sum()


@pytest.mark.parametrize("seed", range(4))
def test_the_geometric_median_has_the_least_sum_of_distances(seed):
    draw = np.random.default_rng(seed)
    points = (draw.normal(size=(30, 4)) * draw.choice([1, 20], size=(30, 1))).astype(np.float32).astype(np.float64)
    found = geometric_median(Features(points))
    best = minimize(lambda m: sum_of_distances(points, m), points.mean(axis=0), method="Nelder-Mead", tol=1e-10)
    assert sum_of_distances(points, found) <= best.fun * (1 + 1e-8)
    assert np.linalg.norm(found - best.x) < 1e-3 * np.linalg.norm(points, axis=1).mean()


def test_the_geometric_median_may_be_a_sample_and_is_the_median_in_one_dimension():
    assert np.allclose(geometric_median(Features([[1.0], [2.0], [4.0], [8.0], [16.0]])), 4, atol=1e-3)
    star = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1.0]])
    assert np.allclose(geometric_median(Features(star)), 0, atol=1e-5)  # the mean is a row from the beginning
    heavy = np.array([[0.0, 0], [0, 0], [0, 0], [5, 0], [0, 5]])  # most rows are at one point, and hold it
    assert np.allclose(geometric_median(Features(heavy)), 0, atol=1e-4)
    assert geometric_median(Features(np.ones((3, 2)))).tolist() == [1, 1]
    assert geometric_median(Features(np.full((1, 2), 7.0))).tolist() == [7, 7]


def corrupted(share, seed=0, away=1e4):
    """200 samples around (3, 0, ...), of which a share lies far away in one direction."""
    draw = np.random.default_rng(seed)
    points = draw.normal(size=(200, 5)) * 0.3 + np.array([3.0, 0, 0, 0, 0])
    bad = np.arange(200) < round(share * 200)
    points[bad] = away * np.array([0, 1.0, 0, 0, 0]) + draw.normal(size=(int(bad.sum()), 5))
    return points.astype(np.float32), bad


@pytest.mark.parametrize("share", [0.1, 0.3, 0.45])
def test_up_to_half_of_the_samples_cannot_move_the_geometric_median_far(share):
    """The breakdown point is 1/2: the farther outliers are, the same bounded move; the mean goes with them."""
    moves = []
    for away in (1e2, 1e4, 1e6):
        points, bad = corrupted(share, away=away)
        clean = points[~bad].mean(axis=0)
        moves.append(np.linalg.norm(geometric_median(Features(points)) - clean))
        assert np.linalg.norm(points.mean(axis=0) - clean) > 0.9 * share * away
    assert max(moves) < 3
    assert moves[2] < 1.5 * moves[0]


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_herding_to_the_geometric_median_keeps_no_outliers_where_the_mean_keeps_many(share):
    points, bad = corrupted(share)
    told = {"selector": "herding", "features": points, "classes": "together", "normalise": True, "rule": "welling"}
    mean = moso.select(None, ratio=0.8, **told)
    robust = moso.select(None, ratio=0.8, centre="geometric-median", **told)
    assert bad[robust].mean() < 0.5 * bad[mean].mean()
    assert bad[robust].mean() < 0.5 * share


@pytest.mark.parametrize("rule", ["mean", "welling"])
def test_matching_the_geometric_median_is_the_rule_with_that_centre(rule):
    features = (np.random.default_rng(2).normal(size=(40, 5)) + 1).astype(np.float32)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    told = {"centre": "geometric-median", "normalise": True, "rule": rule, "classes": "together"}
    kept = moso.select(None, ratio=0.6, selector="herding", features=features, **told)
    assert set(kept) == set(literal(unit, 16, rule, geometric_median(Features(unit))))
