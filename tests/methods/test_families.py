"""Laws of the families and traits of methods: stated by ours, derived from declared needs for everybody."""

import pytest
from typer.testing import CliRunner

from moso.cli.main import app
from moso.configuration import Configuration
from moso.configuration.candidates import undecided
from moso.evidence_kinds.registry import about_classes, averages, needs_reference, needs_surrogates
from moso.methods import FAMILIES, METHODS, Method, find_method, listing


@pytest.mark.parametrize("name", METHODS.built_in())
def test_every_method_of_ours_states_its_family_and_when_to_use_it(name):
    method = find_method(name)
    assert method.family in FAMILIES
    assert method.when
    assert "\n" not in method.when
    assert method.traits().cost


def test_a_method_that_states_neither_still_has_a_family_and_a_line():
    of_score = Method("gentle", "aum", "coverage", "CCS with a smaller cut", {"cut": 0.1})
    of_features = Method("spread", None, "k-center", "far from each other")
    assert (of_score.group(), of_features.group()) == ("difficulty", "coverage")


@pytest.mark.parametrize("name", METHODS.built_in())
def test_a_method_without_training_trains_no_network_of_the_run(name):
    method = find_method(name)
    needs = method.needs()
    trains = needs_reference(needs) or needs_surrogates(needs) or averages(needs)
    assert method.traits().without_training == (not trains)


def test_traits_are_those_that_people_expect():
    traits = {name: find_method(name).traits() for name in METHODS.built_in()}
    known = {"random", "ssp", "k-center", "herding", "moderate", "el2n", "moso-rank", "ccs", "grand", "opt"}
    assert {name for name in known if traits[name].without_labels} == {"random", "ssp", "k-center", "herding"}
    assert {name for name in known if traits[name].without_training} == {"random", "ssp"}
    assert {name for name in known if traits[name].embeddings_alone} == {"ssp", "k-center", "herding", "moderate"}
    assert traits["random"].cost == "nothing"


@pytest.mark.parametrize("name", METHODS.built_in())
def test_what_does_without_labels_needs_no_evidence_about_classes(name):
    method = find_method(name)
    if method.traits().without_labels:
        assert not about_classes(method.needs(by_class=False))
        assert name in Configuration.resolve({"dataset": "diabetes", "methods": [name], "embedding": "inputs"}).methods


def test_auto_lists_what_its_candidates_need():
    assert find_method("auto").needs() == undecided(Configuration.resolve({"methods": ["random"]})).needs()


def test_methods_are_listed_by_family_with_their_traits():
    rows = [row for row in listing() if row["kind"] == "method"]
    order = [FAMILIES.index(row["family"]) for row in rows]
    assert order == sorted(order)
    said = CliRunner().invoke(app, ["methods"]).output
    places = [said.index(f"\n{family} ") if family != FAMILIES[0] else 0 for family in FAMILIES]
    assert places == sorted(places)
    for row in rows:
        assert row["name"] in said


def test_label_free_methods_are_marked_as_such():
    marked = {name for name in METHODS.built_in() if find_method(name).traits().without_labels}
    assert marked >= {"ssp", "zcore", "k-center", "facility-location", "graph-cut", "gm-matching", "semdedup"}


def test_marks_of_the_listing_are_the_traits_and_are_explained():
    said = CliRunner().invoke(app, ["methods"], terminal_width=120).output
    lines = {line.split()[0]: line.split() for line in reversed(said.splitlines()) if line.strip()}
    assert {"L", "T", "E"} <= set(lines["zcore"])
    assert {"L", "E"} <= set(lines["facility-location"])
    assert "T" not in lines["facility-location"]
    assert not {"L", "T", "E"} & set(lines["craig"])
    assert "L: works without labels" in said
