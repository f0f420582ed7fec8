"""Laws of the three combinations of the step terms."""

import numpy as np
import pytest
from hypothesis import given as over
from hypothesis import strategies as st
from scipy.stats import spearmanr

from moso.evidence import PartitionTerms, StepTerms
from moso.scores import agreement, moso_rank_score, moso_score, moso_standardised_score


def terms(steps: int = 5, samples: int = 200, seed: int = 0) -> PartitionTerms:
    draw = np.random.default_rng(seed)
    found = []
    for step in range(1, steps + 1):
        gradients = draw.normal(size=(samples, 6)) + draw.normal(size=6)
        mean = gradients.mean(axis=0)
        dot, norm = gradients @ mean, np.square(gradients).sum(axis=1)
        found.append(StepTerms(step * 7, (0.1 / step,), dot[None], norm[None]))
    return PartitionTerms(100, found)


def test_the_centred_form_ranks_like_the_papers_inside_a_partition():
    given = terms()
    assert spearmanr(moso_score(given, "paper"), moso_score(given, "centred")).statistic > 0.999


def test_the_mean_of_the_centred_form_is_what_the_notes_derive():
    given = terms(steps=1)
    step = given.steps[0]
    squared_mean = step.dot.mean()
    expected = -0.1 * (step.squared_norm.mean() - squared_mean) / (step.samples - 1)
    assert agreement(step, "centred").mean() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("combine", [moso_standardised_score, moso_rank_score])
def test_scale_of_a_step_does_not_matter_to_the_other_combinations(combine):
    given = terms()
    louder = [
        StepTerms(s.step, (s.learning_rates[0] * 10**k,), s.dot, s.squared_norm) for k, s in enumerate(given.steps)
    ]
    np.testing.assert_allclose(combine(given), combine(PartitionTerms(100, louder)), rtol=1e-9, atol=1e-12)


def test_the_plain_sum_is_the_formula():
    given = terms(steps=3, samples=50)
    N, T, K = 50, 100, 3
    expected = sum(s.learning_rates[0] * (N * s.dot[0] - s.squared_norm[0]) / (N - 1) for s in given.steps) * T / N / K
    np.testing.assert_allclose(moso_score(given), expected, rtol=1e-12)


def test_ranks_lie_between_0_and_1_and_average_one_half():
    ranks = moso_rank_score(terms())
    assert ranks.min() >= 0
    assert ranks.max() <= 1
    assert ranks.mean() == pytest.approx(0.5)


def test_equal_terms_give_equal_scores():
    flat = PartitionTerms(10, [StepTerms(1, (0.1,), np.ones((1, 5)), np.ones((1, 5)))])
    for combine in (moso_score, moso_standardised_score, moso_rank_score):
        assert np.ptp(combine(flat)) == 0
        assert np.isfinite(combine(flat)).all()


@over(st.lists(st.sampled_from([-1.5, 0.0, 0.25, 2.0, 7.0]), min_size=2, max_size=30))
def test_equal_terms_share_the_mean_of_the_ranks_they_take_up(values):
    one = PartitionTerms(10, [StepTerms(1, (1.0,), np.array([values]), np.zeros((1, len(values))))])
    below = [sum(other < value for other in values) for value in values]
    beside = [sum(other == value for other in values) - 1 for value in values]
    expected = (np.array(below) + np.array(beside) / 2) / max(1, len(values) - 1)
    np.testing.assert_array_equal(moso_rank_score(one), expected)
