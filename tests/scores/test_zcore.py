"""`zcore` against a slow restatement of its source with the same draws, and what holds for any data."""

import numpy as np
import pytest
from scipy.stats import kstest, triang

from moso.scores.zcore import ZcoreSettings, draw_points, zcore_scores
from refusals import refusal


def keys_of(count):
    return np.random.default_rng(99).permutation(count).astype(np.uint64) + np.uint64(1000)


def restated(features, settings, seed):
    """The source's loop: all distances for every draw (where no two are equal)."""
    rows = features.astype(np.float32).astype(np.float64)
    limits = np.stack([rows.min(axis=0), np.median(features.astype(np.float32), axis=0), rows.max(axis=0)])
    scores = np.zeros(len(rows))
    for pair, point in zip(*draw_points(limits, settings.draws, seed), strict=True):
        covering = int(np.argmin(np.abs(rows[:, pair] - point).sum(axis=1)))
        scores[covering] += 1
        distances = np.abs(rows[:, pair] - rows[covering, pair]).sum(axis=1)
        nearest = np.argsort(distances)[1 : settings.neighbours + 1]
        penalty = 1 / distances[nearest] ** settings.exponent
        scores[nearest] -= penalty / penalty.sum()
    return scores


@pytest.mark.parametrize("neighbours", [1, 7, 1000])
@pytest.mark.parametrize("shape", [(300, 5), (150, 2), (40, 30)])
def test_scores_are_those_of_the_sources_loop(shape, neighbours):
    features = np.random.default_rng(0).normal(size=shape) ** 3  # with long tails
    settings = ZcoreSettings(draws=400, neighbours=neighbours, start="zero")
    found = zcore_scores(features, keys_of(len(features)), 5, settings)
    assert np.allclose(found, restated(features, settings, 5), atol=1e-9)


def test_a_wide_data_set_looks_at_windows_and_finds_the_same():
    features = np.random.default_rng(1).exponential(size=(5000, 3))
    settings = ZcoreSettings(draws=300, neighbours=20, start="zero")
    found = zcore_scores(features, keys_of(5000), 0, settings)
    assert np.allclose(found, restated(features, settings, 0), atol=1e-9)


def test_points_are_triangular_between_the_limits_with_the_mode_at_the_median():
    limits = np.array([[0.0, -4.0], [1.0, 0.0], [5.0, 2.0]])
    pairs, points = draw_points(limits, 4000, seed=3)
    for coordinate in (0, 1):
        low, mode, high = limits[:, coordinate]
        drawn = points[pairs == coordinate]
        expected = triang((mode - low) / (high - low), loc=low, scale=high - low)
        assert kstest(drawn, expected.cdf).pvalue > 0.01
    assert np.bincount(pairs[:, 0]).min() > 1800


def test_the_order_of_the_data_changes_no_bit_also_with_equal_values():
    draw = np.random.default_rng(2)
    features = draw.integers(0, 4, size=(120, 6)).astype(np.float32)  # many equal distances
    keys, settings = keys_of(120), ZcoreSettings(draws=500, neighbours=10)
    found = zcore_scores(features, keys, 0, settings)
    shuffled = draw.permutation(120)
    assert (zcore_scores(features[shuffled], keys[shuffled], 0, settings) == found[shuffled]).all()


def test_equal_samples_share_points_instead_of_the_first_taking_all():
    features = np.zeros((50, 4))
    found = zcore_scores(features, keys_of(50), 0, ZcoreSettings(draws=5000, start="zero"))
    assert abs(found).max() < 60  # 100 points and 100 losses each, give or take
    assert abs(found.sum()) < 1e-9


def test_what_one_sample_gains_its_neighbours_lose_together():
    features = np.random.default_rng(0).normal(size=(80, 4))
    found = zcore_scores(features, keys_of(80), 0, ZcoreSettings(draws=333, start="zero"))
    assert abs(found.sum()) < 1e-9


def test_a_sample_alone_in_its_region_is_worth_more_than_copies():
    features = np.concatenate([np.random.default_rng(0).normal(size=(60, 3)) * 0.01, np.full((1, 3), 5.0)])
    scores = zcore_scores(features, keys_of(61), 0, ZcoreSettings(draws=2000))
    assert scores[60] > 100
    assert (scores[:60] > scores[60]).sum() <= 6  # samples at the rim of the others cover the way to it


def test_seeds_draw_anew_and_more_draws_agree_more():
    features, keys = np.random.default_rng(0).normal(size=(100, 8)), keys_of(100)
    few, many = (
        [zcore_scores(features, keys, seed, ZcoreSettings(draws=draws)) for seed in (0, 1)] for draws in (200, 6000)
    )
    assert (few[0] != few[1]).any()
    assert np.corrcoef(*many)[0, 1] > np.corrcoef(*few)[0, 1]


@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (3, 1), (2, 2)])
def test_few_samples_and_one_feature_are_no_trouble(shape):
    assert np.isfinite(zcore_scores(np.ones(shape), keys_of(shape[0]))).all()
    assert np.isfinite(zcore_scores(np.random.default_rng(0).normal(size=shape), keys_of(shape[0]))).all()


def test_what_is_no_row_of_finite_numbers_is_refused():
    with refusal("values-not-finite", 1):
        zcore_scores(np.array([[1.0], [np.nan]]), keys_of(2))
    with refusal("shape-mismatch"):
        zcore_scores(np.zeros(3), keys_of(3))
    with refusal("shape-mismatch"):
        zcore_scores(np.zeros((3, 0)), keys_of(3))
