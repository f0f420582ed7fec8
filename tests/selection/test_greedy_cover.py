"""Greedy facility location against brute force, the plain greedy algorithm, and apricot."""

from itertools import combinations

import apricot
import numpy as np
import pytest

from moso.selection.greedy_cover import check_size, cluster_sizes, greedy_cover
from refusals import refusal


def value(similarity, chosen):
    """F(A), written down."""
    return sum(max(similarity[j, i] for j in chosen) for i in range(len(similarity)))


def plain_greedy(similarity, budget):
    """Every gain computed anew at every step; the first of the largest wins."""
    chosen, covered = [], np.zeros(len(similarity))
    for _ in range(budget):
        gains = np.maximum(similarity - covered, 0).sum(axis=1)
        gains[chosen] = -1
        chosen.append(int(np.argmax(gains)))
        covered = np.maximum(covered, similarity[chosen[-1]])
    return chosen


def similarities(count, seed, whole=False):
    draw = np.random.default_rng(seed)
    points = draw.integers(0, 3, (count, 2)).astype(float) if whole else draw.normal(size=(count, 3))
    far = np.linalg.norm(points[:, None] - points[None], axis=2)
    return far.max() - far


@pytest.mark.parametrize("seed", range(10))
def test_the_value_is_at_least_the_promised_share_of_the_optimum(seed):
    similarity = similarities(10, seed)
    for budget in (1, 2, 3, 5):
        order, gains = greedy_cover(similarity, budget)
        best = max(value(similarity, chosen) for chosen in combinations(range(10), budget))
        assert value(similarity, order) >= (1 - 1 / np.e) * best
        assert gains.sum() == pytest.approx(value(similarity, order))


@pytest.mark.parametrize("seed", range(6))
def test_lazy_chooses_what_plain_greedy_chooses_ties_included(seed):
    similarity = similarities(40, seed, whole=seed % 2 == 0)  # whole coordinates have twins and ties
    order, gains = greedy_cover(similarity, 40)
    assert order.tolist() == plain_greedy(similarity, 40)
    assert (np.diff(gains) <= 1e-9).all()


def test_a_smaller_budget_is_the_beginning_of_a_larger_one():
    similarity = similarities(30, 3)
    assert greedy_cover(similarity, 7)[0].tolist() == greedy_cover(similarity, 30)[0][:7].tolist()


@pytest.mark.parametrize("seed", range(4))
def test_apricot_chooses_the_same(seed):
    # Two samples that only cover each other tie; a little noise decides for both programs.
    similarity = similarities(60, seed) + np.random.default_rng(seed).uniform(0, 0.01, (60, 60))
    theirs = apricot.FacilityLocationSelection(20, metric="precomputed", optimizer="lazy").fit(similarity)
    order, gains = greedy_cover(similarity, 20)
    assert order.tolist() == theirs.ranking.tolist()
    assert gains == pytest.approx(theirs.gains)


def test_rows_are_candidates_and_columns_what_they_cover():
    similarity = np.array([[0.0, 5.0, 5.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert greedy_cover(similarity, 2)[0].tolist() == [0, 1]


def test_nothing_to_gain_is_chosen_by_position():
    assert greedy_cover(np.zeros((4, 4)), 3)[0].tolist() == [0, 1, 2]


def test_float32_is_taken_as_it_is():
    similarity = similarities(50, 1).astype(np.float32)
    assert greedy_cover(similarity, 50)[0].tolist() == greedy_cover(similarity.astype(np.float64), 50)[0].tolist()


@pytest.mark.parametrize("whole", [False, True])
def test_every_sample_is_counted_once_by_the_nearest_chosen_one(whole):
    similarity = similarities(40, 0, whole)
    order, _ = greedy_cover(similarity, 15)
    sizes = cluster_sizes(similarity, order)
    assert sizes.sum() == 40
    assert (sizes >= 1).all()
    ascending = sorted(order.tolist())
    expected = dict.fromkeys(ascending, 0)
    for i in range(40):
        expected[i if i in expected else max(ascending, key=lambda j: (similarity[j, i], -j))] += 1
    assert sizes.tolist() == [expected[j] for j in order.tolist()]


def test_a_class_beyond_the_largest_is_refused_with_the_size_that_works():
    check_size("craig", 20_000)
    with refusal("method-impossible", "craig", 20_001, 20_000):
        check_size("craig", 20_001)
