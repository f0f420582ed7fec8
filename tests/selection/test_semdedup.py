"""`semdedup`: brute force over pairs, planted copies of real digits, and what goes after the copies."""

from importlib import import_module

import numpy as np
import pytest
from sklearn.datasets import load_digits

import moso
from moso.selection import Features
from moso.selection.selectors.semdedup import duplicate_likeness
from refusals import refusal


def literal(features, stays, scores):
    """Every pair, in float64: the largest cosine with a sample that is preferred."""
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-30)
    mean = unit.mean(axis=0) / np.linalg.norm(unit.mean(axis=0))
    preference = {"far": unit @ mean, "near": -(unit @ mean), "score": -scores}[stays]
    order = np.argsort(preference, kind="stable")
    found = np.full(len(features), -np.inf)
    for place, z in enumerate(order):
        found[z] = max((float(unit[z] @ unit[y]) for y in order[:place]), default=-np.inf)
    return found


@pytest.mark.parametrize("stays", ["far", "near", "score"])
def test_likeness_is_the_largest_cosine_with_a_preferred_sample(stays):
    draw = np.random.default_rng(0)
    features, scores = draw.normal(size=(70, 5)), draw.normal(size=70)
    found = duplicate_likeness(Features(features.astype(np.float32)), scores, stays)
    assert np.allclose(found, literal(features.astype(np.float32).astype(float), stays, scores), atol=1e-6)


def with_copies(seed=0, noise=0.02):
    """Digits of which every fifth has a copy that differs a little."""
    pictures = load_digits().data[:1000].astype(np.float32)
    draw = np.random.default_rng(seed)
    copied = np.arange(0, 1000, 5)
    spread = noise * np.linalg.norm(pictures[copied], axis=1, keepdims=True) / np.sqrt(64)
    copies = pictures[copied] + spread * draw.normal(size=(200, 64))
    return np.concatenate([pictures, copies]).astype(np.float32), copied


@pytest.mark.parametrize("stays", ["far", "near"])
def test_planted_copies_of_digits_are_found_and_one_of_each_pair_stays(stays):
    features, copied = with_copies()
    told = {"features": features, "threshold": 0.99, "stays": stays}
    kept = moso.select(None, keep=1000, selector="semdedup", **told)
    there = np.isin(np.stack([copied, np.arange(1000, 1200)]), kept)
    assert (there.sum(axis=0) >= 1).mean() > 0.99
    assert (there.sum(axis=0) == 1).mean() > 0.95


def test_exactly_copied_samples_go_before_the_lowest_scores():
    draw = np.random.default_rng(0)
    features = draw.normal(size=(50, 8))
    features = np.concatenate([features, features[:10]])
    scores = np.arange(60.0)
    kept = moso.select(scores, keep=50, selector="semdedup", features=features, stays="score")
    assert kept.tolist() == list(range(10, 60))  # of each pair the higher score
    fewer = moso.select(scores, keep=45, selector="semdedup", features=features, stays="score")
    assert fewer.tolist() == list(range(15, 60))  # then the lowest scores
    more = moso.select(scores, keep=55, selector="semdedup", features=features, stays="score")
    assert set(kept) < set(more)
    assert len(set(more) & set(range(10))) == 5


def test_of_a_chain_only_the_preferred_end_stays():
    angles = np.radians([0, 10, 20, 90])  # neighbours are near, the ends of the chain are not
    features = np.column_stack([np.cos(angles), np.sin(angles)])
    scores = np.array([4.0, 3.0, 2.0, 1.0])
    told = {"features": features, "selector": "semdedup", "threshold": float(np.cos(np.radians(11)))}
    kept = moso.select(scores, ratio=0.5, stays="score", **told)
    assert kept.tolist() == [0, 3]


def test_the_most_alike_go_first_where_there_are_more_duplicates_than_have_to_go():
    angles = np.radians([0, 0.1, 45, 45.5, 90, 92])
    features = np.column_stack([np.cos(angles), np.sin(angles)])
    for count, gone in ((5, {1}), (4, {1, 3}), (3, {1, 3, 5})):
        kept = moso.select(-np.arange(6.0), keep=count, selector="semdedup", features=features, stays="score")
        assert set(range(6)) - set(kept.tolist()) == gone


def test_without_scores_what_is_no_duplicate_goes_at_random_by_seed():
    features = np.eye(30)
    kept = [
        moso.select(None, ratio=0.5, selector="semdedup", features=features, seed=seed).tolist() for seed in (0, 0, 1)
    ]
    assert kept[0] == kept[1] != kept[2]


def test_cells_find_what_all_pairs_find():
    pytest.importorskip("faiss")
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(8, 16)) * 4
    features = (centres[draw.integers(0, 8, 5000)] + draw.normal(size=(5000, 16))).astype(np.float32)
    features = np.concatenate([features, features[:500] * 1.5])  # copies of another length
    scores = np.random.default_rng(1).normal(size=5500)
    cells = duplicate_likeness(Features(features), scores, "score", exact=1000)
    whole = duplicate_likeness(Features(features), scores, "score")
    assert ((cells >= 0.9999) == (whole >= 0.9999)).all()
    assert (whole >= 0.9999).sum() == 500
    assert (cells <= whole + 1e-6).all()


def test_large_cells_are_divided_and_their_copies_still_found(monkeypatch):
    monkeypatch.setattr(import_module("moso.selection.selectors.semdedup"), "LARGEST", 60)
    pytest.importorskip("faiss")
    features = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    features = np.concatenate([features, features])
    found = duplicate_likeness(Features(features), np.zeros(200), exact=50)
    assert (found >= 0.9999).sum() >= 95


def test_zero_rows_are_no_duplicates_and_one_sample_is_kept():
    assert len(moso.select(None, ratio=0.5, selector="semdedup", features=np.zeros((6, 2)))) == 3
    assert moso.select(None, ratio=0, selector="semdedup", features=np.ones((1, 2))).tolist() == [0]


def test_classes_one_by_one_keep_their_quotas():
    labels = np.repeat([0, 1], 20)
    features = np.concatenate([np.ones((20, 3)), np.random.default_rng(0).normal(size=(20, 3))])
    told = {"selector": "semdedup", "features": features, "labels": labels}
    together = moso.select(None, ratio=0.4, **told)
    assert (labels[together] == 0).sum() < 8
    kept = moso.select(None, ratio=0.4, classes="proportional", **told)
    assert np.bincount(labels[kept]).tolist() == [12, 12]


def test_features_that_are_not_numbers_are_refused():
    with refusal("values-not-finite", 1):
        moso.select(None, ratio=0.5, selector="semdedup", features=np.array([[1.0], [np.inf], [0.0]]))
