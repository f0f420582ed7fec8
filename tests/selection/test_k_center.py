"""`k-center`: its factor of two against brute force, and every choice against the definition."""

from itertools import combinations

import numpy as np
import pytest

import moso
from moso.randomness import hashes
from moso.selection import Features, Problem
from moso.selection.blocks import blocks


def radius(features, centres):
    far = np.linalg.norm(features[:, None] - features[list(centres)][None], axis=2)
    return far.min(axis=1).max()


def farthest_first(features, first, count):
    """The greedy rule with every distance computed anew."""
    centres = [first]
    while len(centres) < count:
        nearest = [min(np.linalg.norm(x - features[c]) for c in centres) for x in features.astype(float)]
        centres.append(int(np.argmax([-1 if z in centres else far for z, far in enumerate(nearest)])))
    return centres


@pytest.mark.parametrize("seed", range(12))
def test_the_radius_is_at_most_twice_the_best_there_is(seed):
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(9, 2)) * draw.choice([1, 10], size=(9, 1))
    for count in (2, 3, 4):
        kept = moso.select(None, ratio=1 - count / 9, selector="k-center", features=features, seed=seed)
        best = min(radius(features, centres) for centres in combinations(range(9), count))
        assert radius(features.astype(np.float32), kept) <= 2 * best * (1 + 1e-6)


def test_every_centre_is_the_farthest_from_those_before():
    features = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32) + 100
    first = int(np.argmin(hashes(Problem(np.zeros(60), 20).keys, 3, "k-center")))
    kept = moso.select(None, ratio=2 / 3, selector="k-center", features=features, seed=3)
    assert set(kept) == set(farthest_first(features, first, 20))


def test_class_by_class_is_each_class_alone():
    draw = np.random.default_rng(0)
    labels = np.repeat([0, 1], [40, 20])
    features = draw.normal(size=(60, 3))
    kept = moso.select(None, ratio=0.5, selector="k-center", features=features, labels=labels, classes="proportional")
    assert np.bincount(labels[kept]).tolist() == [20, 10]
    own = Problem(np.zeros(60), 30, rows={"features": Features(features)}).subset(np.arange(40, 60), 10)
    first = int(np.argmin(hashes(own.keys, 0, "k-center")))
    assert set(kept[kept >= 40] - 40) == set(farthest_first(features[40:].astype(np.float32), first, 10))


def test_blocks_are_covered_one_by_one():
    features = np.random.default_rng(0).normal(size=(90, 4)).astype(np.float32)
    kept = moso.select(None, ratio=0.7, selector="k-center", features=features, block=40)
    problem = Problem(np.zeros(90), 27, rows={"features": Features(features)})
    parts = list(blocks(problem, 40, "k-center"))
    assert [len(where) for where, _ in parts] == [30, 30, 30]
    assert sorted(np.concatenate([where for where, _ in parts])) == list(range(90))
    for where, part in parts:
        first = int(np.argmin(hashes(part.keys, 0, "k-center")))
        assert set(where[farthest_first(features[where], first, part.budget)]) == set(kept) & set(where)


def test_rows_computed_when_asked_for_say_the_same(monkeypatch):
    features = np.random.default_rng(0).normal(size=(80, 4))
    kept = moso.select(None, ratio=0.5, selector="k-center", features=features)
    monkeypatch.setattr("moso.selection.blocks.KEPT", 10)
    assert moso.select(None, ratio=0.5, selector="k-center", features=features).tolist() == kept.tolist()


def test_twins_are_taken_only_when_nothing_else_is_left():
    features = np.array([[0.0], [0.0], [5.0], [5.0], [9.0]])
    kept = moso.select(None, ratio=0.4, selector="k-center", features=features)
    assert len({features[z, 0] for z in kept}) == 3
    assert len(moso.select(None, ratio=0.0, selector="k-center", features=features)) == 5
