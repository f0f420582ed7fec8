"""Settings of selectors: defaults from the sources, values checked, unknown names refused."""

import numpy as np
import pytest

import moso
from moso.errors import MosoError
from moso.selection import SELECTORS, find_selector


def test_settings_are_given_as_a_mapping_or_by_name():
    scores = np.random.default_rng(0).normal(size=100)
    one = moso.select(scores, ratio=0.5, selector="coverage", hard="low", cut=0.1, strata=5)
    same = moso.select(scores, ratio=0.5, selector="coverage", hard="low", settings={"cut": "0.1"}, strata=5.0)
    other = moso.select(scores, ratio=0.5, selector="coverage", hard="low", settings={"cut": 0.4}, strata=5)
    assert one.tolist() == same.tolist() != other.tolist()


@pytest.mark.parametrize(
    ("selector", "settings", "message"),
    [
        ("coverage", {"cutt": 0.3}, "selector 'coverage' has no setting 'cutt'; it has: classes, cut, strata, by"),
        ("top", {"cut": 0.3}, "selector 'top' has no setting 'cut'; it has: none"),
        ("coverage", {"cut": 1.0}, "cut = 1.0 must be a number at least 0 and below 1"),
        ("coverage", {"cut": float("nan")}, "cut = nan must be a number"),
        ("coverage", {"cut": "much"}, "cut = 'much' must be a number"),
        ("coverage", {"strata": 2.5}, "strata = 2.5 must be a whole number at least 1"),
        ("coverage", {"strata": True}, "strata = True must be a whole number"),
        ("median", {"by": "guess"}, "by = 'guess' must be one of score, rank"),
        ("median", {"by": 3}, "by = 3 must be one of score, rank"),
        ("softmax", {"temperature": 0}, "temperature = 0 must be a number above 0"),
        ("d2", {"squared": "maybe"}, "squared = 'maybe' must be true or false"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(selector, settings, message):
    with pytest.raises(MosoError) as problem:
        moso.select(np.ones(4), ratio=0.5, selector=selector, settings=settings)
    assert message in str(problem.value)


@pytest.mark.parametrize("selector", sorted(SELECTORS.names()))
def test_every_setting_has_a_default_that_passes_its_own_check_and_a_sentence(selector):
    found = find_selector(selector)
    for option in found.options():
        assert option.text
        assert found.resolved({option.name: option.default}) == found.resolved({})


def test_what_a_selector_needs_follows_its_settings():
    coverage, herding = find_selector("coverage"), find_selector("herding")
    assert coverage.needed() == {"scores", "hard"}
    assert coverage.needed(coverage.resolved({"cut": 0, "classes": "balanced"})) == {"scores", "labels"}
    assert herding.needed() == {"features", "labels"}
    assert herding.needed(herding.resolved({"classes": "together"})) == {"features"}
