"""Simulations that the formulas of docs/noise.md are held against; none of them uses a formula."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.noise.formulas import Array, Gaussian
from moso.evaluation.detection import auroc


def drawn(problem: Gaussian, transition: Array, samples: int, seed: int) -> tuple[Array, NDArray[np.int64], Array]:
    """Return rows, right classes and noisy labels (one-hot) of one draw."""
    draw = np.random.default_rng(seed)
    right = np.arange(samples) % problem.classes
    means = problem.length * np.eye(problem.classes, problem.width)
    rows = means[right] + problem.spread * draw.normal(size=(samples, problem.width))
    labels = (draw.random(samples)[:, None] > transition.cumsum(axis=1)[right]).sum(axis=1)
    return rows, right, np.eye(problem.classes)[np.minimum(labels, problem.classes - 1)]


def early_scores(rows: Array, labels: Array) -> Array:
    """Return MoSo's term of every sample at weights 0, where all classes are equally likely: brute force."""
    samples, classes = labels.shape
    residuals = 1 / classes - labels
    mean = residuals.T @ rows / samples
    dots = ((residuals @ mean) * rows).sum(axis=1)
    norms = np.square(residuals).sum(axis=1) * np.square(rows).sum(axis=1)
    return np.asarray((samples * dots - norms) / (samples - 1))


def early_auroc(problem: Gaussian, transition: Array, samples: int, seed: int) -> float:
    """Return the AUROC of right against wrong samples of one label, as a mean over labels that have both."""
    rows, right, labels = drawn(problem, transition, samples, seed)
    scores, given = early_scores(rows, labels), labels.argmax(axis=1)
    found = []
    for label in range(problem.classes):
        some = given == label
        wrong = right[some] != label
        if 0 < wrong.sum() < some.sum():
            found.append(auroc(-scores[some], wrong))
    return float(np.mean(found))


def fitted_logits(transition: Array, decay: float, steps: int = 20_000) -> Array:
    """Return the logits `[class, label]` that minimise the expected noisy loss with weight decay: gradient descent.

    One free row of logits per class: every input of a class is alike, and classes have nothing in common.
    """
    logits = np.zeros_like(transition)
    for _ in range(steps):
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        predicted = exponentials / exponentials.sum(axis=1, keepdims=True)
        logits -= 2.0 * (predicted - transition + decay * logits)
    return logits
