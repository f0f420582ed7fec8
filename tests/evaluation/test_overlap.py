"""Likeness of methods: against sets of Python and scipy's coefficient."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from moso.evaluation.overlap import Likeness, jaccard, jaccard_by_chance, mean_likeness, rank_correlations
from refusals import refusal


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4))
def test_jaccard_is_intersection_over_union_of_sets(rows):
    kept = {str(number): np.array(row) for number, row in enumerate(rows)}
    found = jaccard(kept)
    for first, one in enumerate(rows):
        for second, other in enumerate(rows):
            own, others = ({place for place, stays in enumerate(row) if stays} for row in (one, other))
            expected = len(own & others) / len(own | others) if own | others else 1.0
            assert found.values[first, second] == pytest.approx(expected)


def test_random_selections_overlap_as_chance_says():
    draw = np.random.default_rng(0)
    masks = {name: draw.permutation(100_000) < 30_000 for name in "ab"}
    assert jaccard(masks).values[0, 1] == pytest.approx(jaccard_by_chance(0.3), abs=0.01)


def test_rank_correlations_agree_with_scipy():
    draw = np.random.default_rng(0)
    scores = {"a": draw.normal(size=50), "b": draw.integers(0, 5, 50).astype(float), "c": draw.normal(size=50) ** 3}
    found = rank_correlations(scores)
    for first, one in enumerate(scores.values()):
        for second, other in enumerate(scores.values()):
            assert found.values[first, second] == pytest.approx(spearmanr(one, other).statistic)


def test_a_constant_score_is_like_nothing():
    found = rank_correlations({"a": np.arange(4.0), "flat": np.ones(4)})
    assert np.isnan(found.values[:, 1]).all()
    assert found.values[0, 0] == 1
    assert found.pairs() == []


def test_pairs_come_the_most_alike_first():
    values = np.array([[1, 0.1, 0.5], [0.1, 1, 0.9], [0.5, 0.9, 1]])
    assert [pair[:2] for pair in Likeness(("a", "b", "c"), values).pairs()] == [("b", "c"), ("a", "c"), ("a", "b")]


def test_tables_of_other_names_have_no_mean():
    with refusal("nothing-to-measure"):
        mean_likeness([Likeness(("a",), np.ones((1, 1))), Likeness(("b",), np.ones((1, 1)))])
