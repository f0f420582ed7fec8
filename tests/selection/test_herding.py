"""`herding`: both rules against their definitions, and the error of the mean against random selection."""

import numpy as np
import pytest

import moso


def literal(features, count, rule):
    """The rule as it is written, with vectors."""
    features = features.astype(np.float64)
    mean = features.mean(axis=0)
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
