"""Suspects come worst first, with what unseen networks say; cleanlab's opinion is cleanlab's."""

import sys

import numpy as np
import pytest
from cleanlab.rank import get_label_quality_scores

from moso.evaluation.confident_learning import ISSUES, QUALITIES, confident_learning
from moso.evaluation.label_suspects import doubt, find_suspects, suspicion
from refusals import refusal


@pytest.fixture(scope="module")
def noisy() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, probabilities that mostly know better, and the right labels."""
    draw = np.random.default_rng(0)
    actual = draw.integers(0, 5, 400)
    labels = np.where(draw.random(400) < 0.2, draw.integers(0, 5, 400), actual)
    logits = draw.normal(size=(400, 5))
    logits[np.arange(400), actual] += 3
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return labels, probabilities.astype(np.float32), actual


def test_the_worst_come_first_with_what_others_say(noisy):
    labels, probabilities, actual = noisy
    found = find_suspects(doubt(probabilities, labels), labels, probabilities, top=50, actual=actual)
    assert len(found) == 50
    assert (np.diff(found.suspicion) <= 0).all()
    for row, position in enumerate(found.positions.tolist()):
        own = probabilities[position]
        assert found.predicted[row] == own.argmax()
        assert found.given_probability[row] == pytest.approx(own[labels[position]])
        assert found.predicted_probability[row] == pytest.approx(own.max())
        assert found.wrong[row] == (labels[position] != actual[position])
    assert found.wrong.mean() > 0.9
    assert find_suspects(doubt(probabilities, labels), labels, probabilities, top=None).wrong is None


def test_the_hard_end_is_the_suspicious_one():
    scores = np.array([3.0, 1.0, 2.0])
    assert suspicion(scores, "high").argmax() == 0
    assert suspicion(scores, "low").argmax() == suspicion(scores, None).argmax() == 1


def test_our_doubt_is_cleanlabs_self_confidence(noisy):
    labels, probabilities, _ = noisy
    theirs = get_label_quality_scores(labels, probabilities, method="self_confidence")
    np.testing.assert_allclose(doubt(probabilities, labels), 1 - theirs, atol=1e-6)


def test_what_confident_learning_flags_comes_before_the_rest(noisy):
    labels, probabilities, actual = noisy
    found = confident_learning(labels, probabilities)
    assert set(found) == {*QUALITIES, ISSUES}
    issues = found[ISSUES]
    assert issues.suspicion[issues.flagged].min() > issues.suspicion[~issues.flagged].max()
    assert (labels != actual)[issues.flagged].mean() > 0.8
    margins = get_label_quality_scores(labels, probabilities, method="normalized_margin")
    np.testing.assert_allclose(-found["cleanlab: normalised margin"].suspicion, margins)


def test_without_cleanlab_the_extra_is_named(noisy, monkeypatch):
    monkeypatch.setitem(sys.modules, "cleanlab.filter", None)
    with refusal("package-missing", "moso-prune[cleanlab]"):
        confident_learning(*noisy[:2])


def test_columns_of_different_samples_are_refused(noisy):
    labels, probabilities, _ = noisy
    with refusal("length-mismatch", 399, 400):
        find_suspects(np.zeros(399), labels, probabilities)
    with refusal("setting-invalid", 1):
        find_suspects(np.zeros(400), labels, probabilities, top=0)
