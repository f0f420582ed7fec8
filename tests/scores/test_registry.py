"""Laws of the registry of scores, and scores of other packages and of the user's own."""

import numpy as np
import pytest

import moso
from moso.evidence_kinds.registry import find_kind
from moso.evidence_kinds.step_terms import TERMS
from moso.methods import find_method, listing, methods
from moso.scores import SCORES, MemoryInput, Score, find_score
from moso.scores.registry import scores
from refusals import refusal


@pytest.mark.parametrize("name", SCORES.names())
def test_every_score_says_what_it_believes_needs_and_means(name):
    score = find_score(name)
    assert score.name == name
    assert score.description
    assert score.scale
    assert score.formula
    assert score.source or name == "random"
    assert all(find_kind(need) is not None for need in score.needed())


@pytest.mark.parametrize("name", SCORES.names())
def test_every_score_refuses_to_work_without_its_evidence(name):
    if SCORES.get(name).needed() - {"labels"}:
        with refusal("evidence-missing"):
            find_score(name)(MemoryInput(4, labels=np.array([0, 1, 0, 1])))
    else:
        assert find_score(name)(MemoryInput(4)).shape == (4,)


def test_scores_are_checked_for_their_shape_and_for_holes():
    short = Score("short", "", lambda given: np.zeros(3))
    holes = Score("holes", "", lambda given: np.array([0.0, np.nan]))
    with refusal("extension-broken", "short", "(3,)", 2):
        short(MemoryInput(2))
    with refusal("extension-broken", "holes", 1):
        holes(MemoryInput(2))


def test_unknown_names_get_the_nearest():
    with refusal("unknown-name", "forgeting", "forgetting"):
        find_score("forgeting")
    with refusal("unknown-name", "hreding", "herding"):
        find_method("hreding")


SOURCE = """
import numpy as np
from moso.methods import Method
from moso.scores import Score

first = Score("first-come", "the first ones are best", lambda given: -np.arange(len(given.keys)), hard="low")
method = Method("first-covered", "first-come", "coverage", "the first ones, covered", {"cut": 0.1})
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with a score and a method of its own."""
    metadata = tmp_path / "theirs-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    points = "[moso.scores]\nfirst-come = theirs:first\n[moso.methods]\nfirst-covered = theirs:method\n"
    (metadata / "entry_points.txt").write_text(points)
    (tmp_path / "theirs.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_another_packages_score_and_method_are_found_and_listed(installed):
    assert find_score("first-come")(MemoryInput(3)).tolist() == [0, -1, -2]
    assert "first-come" in scores()
    assert find_method("first-covered").find_score() is find_score("first-come")
    assert "first-covered" in methods()
    rows = {(row["kind"], row["name"]): row for row in listing()}
    assert rows["score", "first-come"]["hard"] == "low"
    assert rows["method", "first-covered"]["settings"] == {"cut": 0.1}


def test_a_score_of_ones_own_is_computed_from_a_trajectory():
    from torch import nn

    model = nn.Linear(2, 2)
    data = (np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32), [0, 1, 0, 1, 0, 1])
    states = [(model.state_dict(), 0.1)]
    mine = Score(
        "mine", "the length squared", lambda given: given.read(TERMS)[0].steps[0].squared_norm[0], frozenset({"terms"})
    )
    squared = moso.score(model, data, states, method=mine)
    np.testing.assert_allclose(moso.score(model, data, states, method="grand-steps"), np.sqrt(squared), rtol=1e-9)
    with refusal("evidence-missing", "aum"):
        moso.score(model, data, states, method=find_score("aum"))
    with refusal("unknown-name", "aum"):
        moso.score(model, data, states, method="aum")
    with refusal("evidence-missing", "grand-steps", "subsampled"):
        moso.score(model, data, states, method="grand-steps", estimator="subsampled")
