"""A comparison says what its cells say: paired intervals as scipy has them, ratios by exhaustive search."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from moso.evaluation.paired import paired_difference
from moso.evaluation.standings import compared, entries, reaches
from moso.evaluation.tolerance import prunable
from moso.report import findings
from moso.tasks.metric import LOSS
from refusals import refusal


def cell(
    method: str, ratio: float, seed: int, value: float, selector: str = "balanced", parameters: str = "{}", **more
):
    known = {"method": method, "selector": selector, "ratio": ratio, "seed": seed, "parameters": parameters}
    return {**known, "metric": "accuracy", "unit": "%", "better": "higher", "value": value, **more}


def cells(method: str, ratio: float, *values: float, **more):
    return [cell(method, ratio, seed, value, **more) for seed, value in enumerate(values)]


@pytest.mark.parametrize("count", [2, 3, 8])
def test_paired_intervals_are_scipys(count):
    draw = np.random.default_rng(count)
    first, second = draw.normal(size=count), draw.normal(size=count)
    expected = ttest_rel(first, second).confidence_interval(0.95)
    found = paired_difference(dict(enumerate(first)), dict(enumerate(second)))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.value == pytest.approx((first - second).mean())
    assert found.pairs == count


@pytest.mark.parametrize("comparisons", [1, 4, 25])
def test_a_verdict_is_that_of_scipys_test_with_its_level_shared_by_all_comparisons(comparisons):
    draw = np.random.default_rng(comparisons)
    verdicts = []
    for effect in np.linspace(-4, 4, 41):
        first, second = draw.normal(size=6) + effect, draw.normal(size=6)
        found = paired_difference(dict(enumerate(first)), dict(enumerate(second)), comparisons=comparisons)
        real = ttest_rel(first, second).pvalue * comparisons < 0.05
        assert found.verdict == ("level" if not real else "better" if found.value > 0 else "worse")
        assert found.star == (" *" if real else "")
        verdicts.append(found.verdict)
    assert set(verdicts) == {"better", "level", "worse"}


def test_where_less_is_better_a_lower_value_is_the_better_one():
    found = paired_difference({0: 0.1, 1: 0.21, 2: 0.3}, {0: 0.5, 1: 0.6, 2: 0.7}, measure=LOSS)
    assert (found.verdict, found.gain) == ("better", pytest.approx(-found.value))


def test_one_seed_has_no_interval_and_no_verdict():
    found = paired_difference({0: 99.0}, {0: 1.0}, test_samples=1000)
    assert (found.value, found.pairs, found.verdict, found.star, str(found)) == (98.0, 1, "unknown", "", "+98.0")
    assert np.isnan([found.low, found.high]).all()


def test_what_a_seed_does_to_both_cancels():
    draw = np.random.default_rng(0)
    luck = 10 * draw.normal(size=5)
    first = {seed: luck[seed] + 1.0 + 0.01 * seed for seed in range(5)}
    second = {seed: luck[seed] for seed in range(5)}
    found = paired_difference(first, second)
    assert 1.0 < found.low < found.high < 1.1


def test_only_seeds_that_both_have_are_compared():
    found = paired_difference({0: 1.0, 1: 2.0, 7: 99.0}, {0: 0.0, 1: 0.5})
    assert found.value == pytest.approx(1.25)
    assert paired_difference({0: 1.0}, {1: 1.0}) is None
    assert np.isnan(paired_difference({0: 1.0}, {0: 0.5}).low)


def test_two_seeds_that_agree_by_luck_prove_little():
    luck = {"first": {0: 91.0, 1: 92.0}, "second": {0: 90.0, 1: 91.0}}
    assert paired_difference(luck["first"], luck["second"]).low == pytest.approx(1.0)
    assert paired_difference(luck["first"], luck["second"], test_samples=359).low < 0
    # A loss has no steps: it may well be that seeds agree.
    assert paired_difference(luck["first"], luck["second"], test_samples=359, measure=LOSS).low == pytest.approx(1.0)


def test_rows_stand_beside_the_better_random_selection_and_all_data():
    found = entries(
        [
            *cells("full", 0.0, 97, 98, 99, selector="none"),
            *cells("moso", 0.5, 96, 97, 97),
            *cells("random", 0.5, 90, 91, 92, selector="random"),
            *cells("random", 0.5, 94, 95, 96),
            *cells("moso", 0.8, 80, 81, 82),
        ]
    )
    rows = {(row.entry.name, row.entry.ratio): row for row in compared(found, test_samples=1000)}
    moso = rows["moso (balanced)", 0.5]
    assert moso.random.selector == "balanced"
    assert moso.against_random.value == pytest.approx(5 / 3)
    assert moso.against_full.value == pytest.approx(-4 / 3)
    assert rows["moso (balanced)", 0.8].against_random is None
    assert rows["random (balanced)", 0.5].against_random is None
    assert rows["random (random)", 0.5].against_random.value == -4
    assert rows["all data", 0.0].against_full is None
    # Two are held against the baseline at 0.5, three against all data there, and one at 0.8.
    assert (moso.against_random.comparisons, moso.against_full.comparisons) == (2, 3)
    assert rows["moso (balanced)", 0.8].against_full.comparisons == 1


def test_a_baseline_that_prunes_nothing_is_never_the_best_method():
    found = entries([*cells("moso", 0.5, 90, 91), *cells("rs2", 0.5, 99, 99), *cells("random", 0.5, 80, 81)])
    (best,) = findings.best_of(compared(found))
    assert best.entry.method == "moso"


def test_settings_are_named_only_where_they_tell_rows_apart():
    once = entries(cells("ccs", 0.5, 90, 91, parameters='{"cut": 0.1}'))
    assert [entry.name for entry in once] == ["ccs (balanced)"]
    twice = entries([*cells("ccs", 0.5, 90, 91), *cells("ccs", 0.5, 92, 93, parameters='{"cut": 0.1}')])
    assert [entry.name for entry in twice] == ["ccs (balanced) {}", 'ccs (balanced) {"cut": 0.1}']
    assert [len(entry.by_seed) for entry in twice] == [2, 2]


losses = st.dictionaries(st.integers(1, 9).map(lambda tenth: tenth / 10), st.integers(-30, 60).map(float), min_size=1)


@settings(deadline=None, max_examples=50)
@given(losses, st.integers(0, 20).map(float))
def test_what_is_prunable_is_found_by_exhaustive_search(losses, tolerance):
    known = {0.0: 0.0, **losses}
    ratios = sorted(known)
    grid = np.union1d(np.linspace(0, ratios[-1], 20_001), ratios)
    line = np.interp(grid, ratios, [known[ratio] for ratio in ratios])
    within = grid[line <= tolerance + 1e-9]
    found = prunable(losses, tolerance)
    assert found.ratio == pytest.approx(within[-1], abs=ratios[-1] / 20_000 + 1e-9)
    assert found.at_least == (known[ratios[-1]] <= tolerance)


@pytest.mark.parametrize("tolerance", [-1.0, float("nan"), float("inf")])
def test_a_tolerance_is_a_number_of_points(tolerance):
    with refusal("setting-invalid", 0):
        prunable({0.5: 1.0}, tolerance)


def test_reach_is_by_means_with_the_range_of_single_seeds():
    found = entries(
        [
            *cells("full", 0.0, 100, 100, selector="none"),
            *cells("moso", 0.4, 99.5, 99.5),
            *cells("moso", 0.8, 98.5, 96.5),
            *cells("random", 0.4, 96, 96, selector="random"),
        ]
    )
    moso, random = reaches(found, tolerance=1.0)
    assert moso.by_mean.ratio == pytest.approx(0.5)  # from 0.5 points at 0.4 to 2.5 points at 0.8
    assert (moso.lowest.ratio, moso.highest.ratio) == (pytest.approx(0.4 + 0.4 * 0.5 / 3), pytest.approx(0.6))
    assert random.by_mean.ratio == pytest.approx(0.1)
    assert reaches(found[1:], tolerance=1.0) == []


def test_of_a_loss_the_tolerance_is_a_share():
    loss = {"metric": "loss", "unit": "", "better": "lower"}
    found = entries([*cells("full", 0.0, 0.5, selector="none", **loss), *cells("moso", 0.5, 0.51, **loss)])
    assert reaches(found, tolerance=1.0)[0].by_mean.ratio == pytest.approx(0.25)
