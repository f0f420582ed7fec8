"""Selectors that draw: their chances, counted over many seeds, and the Beta density against scipy's."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

import moso
from moso.selection import Problem
from moso.selection.orders import weighted_order
from moso.selection.selectors.beta import BetaSettings, beta, beta_parameters, log_density


def inclusion(weights, count):
    """The chance of each sample to be among `count` drawn one by one without replacement."""
    chances = np.zeros(len(weights))
    for order in permutations(range(len(weights)), count):
        chance, left = 1.0, weights.sum()
        for z in order:
            chance, left = chance * weights[z] / left, left - weights[z]
        chances[list(order)] += chance
    return chances


@pytest.mark.parametrize("count", [1, 2, 4])
def test_softmax_draws_in_proportion_to_what_is_left(count):
    scores, temperature, draws = np.array([0.0, 1.0, 2.0, 3.0, 3.5, -1.0]), 1.5, 4000
    expected = inclusion(np.exp(scores / temperature), count)
    seen = np.zeros(6)
    for seed in range(draws):
        seen[
            moso.select(
                scores, ratio=1 - count / 6, selector="softmax", unit="score", temperature=temperature, seed=seed
            )
        ] += 1
    # Counts of draws without replacement vary less than independent ones: chi-square bounds them from above.
    assert ((seen - draws * expected) ** 2 / (draws * expected)).sum() < stats.chi2.ppf(0.999, 5)


def test_softmax_in_units_of_spread_does_not_see_the_scale_of_scores():
    scores = np.random.default_rng(0).normal(size=200)
    kept = moso.select(scores, ratio=0.6, selector="softmax")
    assert kept.tolist() == moso.select(1e-6 * scores + 3, ratio=0.6, selector="softmax").tolist()


def test_softmax_lies_between_top_and_random():
    scores = np.random.default_rng(0).normal(size=500)
    top = set(moso.select(scores, ratio=0.8, selector="top"))
    shared = [
        len(top & set(moso.select(scores, ratio=0.8, selector="softmax", temperature=t))) for t in (1e-3, 0.3, 1.0, 1e3)
    ]
    assert shared[0] == 100
    assert shared == sorted(shared, reverse=True)
    assert shared[-1] < 40


def test_the_beta_density_is_scipys():
    values = np.linspace(0.001, 0.999, 50)
    for a, b in [(7.0, 9.0), (15.5, 0.5), (16 - 1e-6, 1e-6)]:
        assert np.allclose(log_density(values, a, b), stats.beta.logpdf(values, a, b), rtol=1e-10)
    assert log_density(np.array([0.0]), 7.0, 9.0) == -np.inf


@pytest.mark.parametrize("ratio", [0.3, 0.7, 0.9])
def test_beta_weighs_as_the_authors_code_does(ratio):
    draw = np.random.default_rng(0)
    probability, scores = draw.uniform(size=500), draw.uniform(size=500)
    problem = Problem(scores, round(500 * (1 - ratio)), probability=probability)
    anchor = probability[np.argsort(scores)[-10:]].mean()
    y_b = 15 * (1 - anchor) * (1 - ratio**4)
    weights = stats.beta.pdf(probability, 16 - y_b, y_b) * scores
    expected = weighted_order(np.log(weights), problem.keys, 0, "beta")[: problem.budget]
    assert beta(problem, BetaSettings()).tolist() == expected.tolist()


def test_beta_draws_easier_samples_the_more_is_removed():
    draw = np.random.default_rng(0)
    probability = draw.uniform(size=4000)
    scores = probability * (1 - probability)  # uncertain samples score high
    means = [
        probability[moso.select(scores, ratio=ratio, selector="beta", probability=probability)].mean()
        for ratio in (0.5, 0.8, 0.9, 0.97)
    ]
    assert means == sorted(means)
    modes = [(a - 1) / (a + b - 2) for a, b in (beta_parameters(0.4, r, BetaSettings()) for r in (0.0, 0.5, 0.9))]
    assert modes == sorted(modes)
    assert 0.4 < modes[0] < 0.45


def test_beta_with_certain_anchors_and_scores_below_zero_still_draws():
    kept = moso.select(np.linspace(-1, 1, 50), ratio=0.5, selector="beta", probability=np.ones(50))
    assert len(kept) == 25
    assert 0 not in kept  # the lowest weighs nothing
