"""Laws of the registry of methods, and of choices made from it."""

import json

import pytest

from moso.configuration import Configuration
from moso.configuration.resolved_method import read_settings, resolve_method
from moso.errors import MosoError
from moso.methods import METHODS, find_method, listing
from moso.scores import SCORES
from moso.selection import SELECTORS

# The names that people rely on.
NAMES = """moso moso-standardised moso-rank random herding forgetting grand el2n opt ssp moderate entropy
least-confidence margin aum dyn-unc tdds dual ccs d2 infomax k-center"""


@pytest.mark.parametrize("name", NAMES.split())
def test_every_method_has_its_name_and_a_pair_that_can_be(name):
    method = find_method(name)
    choice = resolve_method(name, None, {})
    assert choice.problem() is None
    assert method.score is None or method.score in SCORES.names()
    assert method.selector in SELECTORS.names()
    assert method.source or name == "random"
    assert method.description


@pytest.mark.parametrize("name", METHODS.names())
def test_a_methods_own_settings_are_its_selectors_and_are_recorded(name):
    method, choice = find_method(name), resolve_method(name, None, {})
    recorded = json.loads(choice.parameters)
    assert set(recorded) == {option.name for option in choice.selector.options()}
    assert method.settings.items() <= recorded.items()


def test_a_users_settings_count_more_than_a_methods_which_count_more_than_defaults():
    def value(method, selector, given):
        return json.loads(resolve_method(method, selector, given).parameters)["neighbours"]

    assert value("d2", None, {}) == 5  # the source's
    assert value("el2n", "d2", {}) == 10  # the selector's default, as it is another method's selector
    assert value("d2", None, {"d2": {"neighbours": 3}}) == 3


def test_the_paper_s_nine_are_there_with_their_sources_selectors():
    expected = {
        "random": "random",
        "herding": "herding",
        "forgetting": "top",
        "grand": "top",
        "el2n": "top",
        "opt": "opt",
        "ssp": "top",
        "moderate": "median",
        "moso": "balanced",
    }
    assert {name: METHODS.get(name).selector for name in expected} == expected


def test_the_listing_is_complete_and_plain_json():
    rows = listing()
    assert json.loads(json.dumps(rows)) == rows
    found = {(row["kind"], row["name"]) for row in rows}
    for kind, names in (("method", METHODS), ("score", SCORES), ("selector", SELECTORS)):
        assert {(kind, name) for name in names.names()} <= found
    for row in rows:
        assert row["description"]
        assert isinstance(row["needs"], str)
        if row["kind"] == "score":
            assert row["keep"] in ("high", "middle")
            assert row["hard"] in ("high", "low", None)


def test_settings_have_one_syntax_for_tables_and_flags():
    table = {"coverage": {"cut": 0.2, "strata": 10}, "k-center": {"block": 100}}
    flags = ["k-center.block=100", "coverage.strata=10", "coverage.cut=0.2"]
    assert read_settings(table) == read_settings(flags) == table
    assert Configuration.resolve({"settings": flags}) == Configuration.resolve({"settings": table})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["cut=0.2"], "is not of the form NAME.SETTING=VALUE"),
        (["coverage.cut"], "is not of the form"),
        ([".cut=1"], "is not of the form"),
        ({"coverage": 0.2}, "is not of the form NAME.SETTING = VALUE"),
        ({"coverage": {"cut": True}}, "cut = True must be a number"),
        (["nobody.cut=0.2"], "unknown selector or score 'nobody'"),
        (["top.cut=0.2"], "selector 'top' has no setting 'cut'; it has: none"),
    ],
)
def test_settings_that_make_no_sense_get_one_clear_sentence(given, sentence):
    with pytest.raises(MosoError, match=sentence):
        read_settings(given)


def test_all_means_every_method_that_can_be():
    assert set(Configuration.resolve({"methods": ["all"]}).methods) == set(METHODS.names()) - {"auto", "less"}
    target = {"risk": "validation", "validation_share": 0.1}
    assert "less" in Configuration.resolve({"methods": ["all"], **target}).methods
    covered = Configuration.resolve({"methods": ["all"], "selectors": ["coverage"]}).methods
    assert {"moso", "aum", "el2n", "forgetting"} <= set(covered)
    assert not {"random", "herding", "k-center", "dyn-unc"} & set(covered)
    assert "grand-steps" not in Configuration.resolve({"methods": ["all"], "estimator": "in-run"}).methods
    numbers = Configuration.resolve({"dataset": "diabetes", "methods": ["all"]}).methods
    assert {"moso", "grand", "opt", "k-center"} <= set(numbers)
    assert not {"aum", "ssp", "herding", "moderate"} & set(numbers)
