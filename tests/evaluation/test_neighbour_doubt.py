"""Doubt from neighbours, by a slow restatement of it; and that two opinions are better than one."""

import numpy as np
import pytest

from moso.evaluation.detection import auroc
from moso.evaluation.neighbour_doubt import mean_rank, neighbour_count, neighbour_doubt
from moso.selection.feature_rows import Features


def clusters(count=300, classes=3, wrong=0.3, seed=0):
    draw = np.random.default_rng(seed)
    truth = np.arange(count) % classes
    rows = draw.normal(0, 1, (classes, 8))[truth] * 2 + draw.normal(0, 1, (count, 8))
    labels = np.where(draw.random(count) < wrong, draw.integers(0, classes, count), truth)
    return rows.astype(np.float32), labels, labels != truth


def test_it_is_the_weighted_share_of_near_samples_with_another_label():
    rows, labels, _ = clusters()
    found = neighbour_doubt(Features(rows), labels, count=7)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for one in (0, 17, 299):
        cosines = unit @ unit[one]
        cosines[one] = -np.inf
        near = np.argsort(-cosines)[:7]
        weights = np.exp(cosines[near] / 0.1)
        expected = weights[labels[near] != labels[one]].sum() / weights.sum()
        assert found[one] == pytest.approx(expected, abs=1e-5)


def test_it_finds_wrong_labels():
    rows, labels, wrong = clusters()
    assert auroc(neighbour_doubt(Features(rows), labels), wrong) > 0.9


def test_the_number_of_neighbours_follows_the_classes():
    assert [neighbour_count(*given) for given in ((50_000, 100), (1000, 10), (10, 10))] == [100, 50, 5]


def test_the_mean_rank_of_two_opinions_is_better_than_both():
    draw = np.random.default_rng(0)
    wrong = draw.random(2000) < 0.2
    one, other = (wrong + draw.normal(0, 1, 2000) for _ in range(2))
    both = auroc(mean_rank(one, other), wrong)
    assert both > max(auroc(one, wrong), auroc(other, wrong)) + 0.02
    assert (mean_rank(one) == mean_rank(100 * one + 7)).all()
