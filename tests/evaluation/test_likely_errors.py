"""Likely label errors are the samples off the diagonal of cleanlab's confident joint."""

import numpy as np
import pytest

from moso.evaluation import likely_errors
from moso.evaluation.likely_errors import likely_label_errors


def made_up(samples: int, classes: int, sharpness: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    right = draw.integers(0, classes, samples)
    logits = draw.normal(size=(samples, classes)) + sharpness * np.eye(classes)[right]
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.where(draw.random(samples) < 0.2, draw.integers(0, classes, samples), right)
    labels[:classes] = np.arange(classes)
    return probabilities.astype(np.float32), labels


@pytest.mark.parametrize("classes", [2, 5, 30])
@pytest.mark.parametrize("sharpness", [0.5, 4.0])
def test_likely_errors_are_off_the_diagonal_of_the_confident_joint(monkeypatch, classes, sharpness):
    count = pytest.importorskip("cleanlab.count")
    probabilities, labels = made_up(700, classes, sharpness, seed=classes)
    monkeypatch.setattr(likely_errors, "_BLOCK", 64)
    _, expected = count.compute_confident_joint(
        labels, probabilities, calibrate=False, return_indices_of_off_diagonals=True
    )
    assert np.flatnonzero(likely_label_errors(probabilities, labels)).tolist() == sorted(expected)


def test_planted_errors_are_found():
    probabilities, labels = made_up(400, 3, 8.0, seed=1)
    wrong = probabilities.argmax(axis=1) != labels
    found = likely_label_errors(probabilities, labels)
    assert (found & wrong).sum() > 0.9 * wrong.sum()
    assert (found & ~wrong).sum() == 0


def test_a_class_without_samples_is_never_the_better_label():
    probabilities = np.array([[0.1, 0.0, 0.9], [0.9, 0.05, 0.05], [0.2, 0.7, 0.1]], dtype=np.float32)
    assert likely_label_errors(probabilities, np.array([0, 0, 1])).tolist() == [False, False, False]
