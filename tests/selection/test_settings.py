"""Settings of selectors: defaults from the sources, values checked, unknown names refused."""

import numpy as np
import pytest

import moso
from moso.selection import SELECTORS, find_selector
from refusals import refusal


def test_settings_are_given_as_a_mapping_or_by_name():
    scores = np.random.default_rng(0).normal(size=100)
    one = moso.select(scores, ratio=0.5, selector="coverage", hard="low", cut=0.1, strata=5)
    same = moso.select(scores, ratio=0.5, selector="coverage", hard="low", settings={"cut": "0.1"}, strata=5.0)
    other = moso.select(scores, ratio=0.5, selector="coverage", hard="low", settings={"cut": 0.4}, strata=5)
    assert one.tolist() == same.tolist() != other.tolist()


@pytest.mark.parametrize(
    ("selector", "settings", "told"),
    [
        ("coverage", {"cutt": 0.3}, ("unknown-name", "coverage", "cutt", "classes, cut, strata, by")),
        ("top", {"cut": 0.3}, ("unknown-name", "top", "cut", "none")),
        ("coverage", {"cut": 1.0}, ("setting-invalid", "cut", 1.0, 0, 1)),
        ("coverage", {"cut": float("nan")}, ("setting-invalid", "cut", "nan")),
        ("coverage", {"cut": "much"}, ("setting-invalid", "cut", "much")),
        ("coverage", {"strata": 2.5}, ("setting-invalid", "strata", 2.5, 1)),
        ("coverage", {"strata": True}, ("setting-invalid", "strata", True)),
        ("median", {"by": "guess"}, ("setting-invalid", "by", "guess", "score, rank")),
        ("median", {"by": 3}, ("setting-invalid", "by", 3, "score, rank")),
        ("softmax", {"temperature": 0}, ("setting-invalid", "temperature", 0)),
        ("d2", {"squared": "maybe"}, ("setting-invalid", "squared", "maybe")),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(selector, settings, told):
    with refusal(*told):
        moso.select(np.ones(4), ratio=0.5, selector=selector, settings=settings)


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
