"""`bws`: keep the stretch of a difficulty order on which a linear classifier learns all of the training data best.

Believes that how hard the kept samples should be depends on how many are kept, and that a cheap classifier can tell.
Samples are ordered from the hardest to the easiest. A window is as many neighbours in this order as are to stay; the
first one begins at the hardest sample, each further one `step` of all samples later, and the last one ends at the
easiest. A window S is judged by ridge regression of the one-hot labels y on the features f of its samples,

    W_S = argmin_W  sum_{i in S} | y_i - W f_i |^2 + ridge * |W|^2

and by how many of *all* training samples it classifies right, argmax_c (W_S f_i)_c = y_i. The best window is kept; of
equally good ones, the easiest. No test data is looked at. Mislabelled samples are no use to any classifier, so windows
that consist of them lose; that they are counted as errors of every window changes little between windows.

Features are divided by the square root of their mean squared norm, so that `ridge` means the same for all networks, and
have a constant 1 added (an intercept). With `classes = "proportional"` or `"balanced"`, every class has an order of its
own and gives its quota from the same place of that order; a window of all classes together may lack a class.

In the primal form, f f^T and f y^T of a window are those of the window before it plus what enters and minus what
leaves: O(N d^2) for all windows together, O(N d C) per window for the predictions, (d + C) d numbers of memory. More
than `WIDEST` features are refused.

Source: Choi, Ki & Chung, BWS: Best Window Selection Based on Sample Scores for Data Pruning across Broad Ranges, ICML
2024 (arXiv 2406.03057): the windows, kernel ridge regression with a linear kernel, and accuracy on the training set.
The scale of features, `ridge` = 1 and the class-wise form are ours.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso import errors
from moso.selection.classes import ClassSettings, members
from moso.selection.feature_rows import CHUNK, Features
from moso.selection.orders import best_first
from moso.selection.problem import Problem, lacking
from moso.selection.quotas import check_every_class, class_quotas

WIDEST = 8192
Floats = NDArray[np.float64]


class BwsSettings(ClassSettings):
    """Settings of `bws`: how far windows are apart, and the ridge."""

    step: float = Field(0.05, gt=0, lt=1, description="share of all samples by which a window begins after another")
    ridge: float = Field(1.0, gt=0, description="penalty of the ridge regression, for features of mean squared norm 1")


def bws(problem: Problem, settings: BwsSettings) -> NDArray[np.int64]:
    """Return `budget` positions: the window whose ridge regression classifies most training samples right."""
    problem.finite_scores("bws")
    labels, features = problem.labels_for("bws"), problem.rows_for("bws")
    if problem.hard is None:
        raise lacking("bws", "hard")
    if features.dimension > WIDEST:
        raise errors.MethodImpossible(
            f"selector 'bws' solves ridge regressions on at most {WIDEST} features per sample, but there are "
            f"{features.dimension}; use another selector, or features of fewer numbers"
        )
    candidates = windows(problem, settings)
    right = accuracies(candidates, features, labels, settings.ridge)
    return candidates[int(len(right) - 1 - np.argmax(right[::-1]))]


def windows(problem: Problem, settings: BwsSettings) -> list[NDArray[np.int64]]:
    """Return the candidate windows, from the hardest to the easiest, each with `budget` positions.

    Example:
        >>> problem = Problem(np.array([5.0, 4.0, 3.0, 2.0]), 2, np.array([0, 1, 0, 1]), hard="high")
        >>> [window.tolist() for window in windows(problem, BwsSettings(step=0.25))]
        [[0, 1], [1, 2], [2, 3]]
    """
    hardest_first = best_first(problem.scores if problem.hard == "high" else -problem.scores)
    orders, budgets = [hardest_first], [problem.budget]
    if settings.classes != "together":
        labels = problem.labels_for("bws")
        sizes = np.bincount(labels)
        check_every_class("bws", sizes, problem.budget)
        quotas = class_quotas(sizes, problem.budget, settings.classes)
        orders = [hardest_first[own] for _, own in members(labels[hardest_first])]
        budgets = [int(quotas[label]) for label, _ in members(labels)]
    found: list[NDArray[np.int64]] = []
    # A tiny share is subtracted so that rounding errors do not add a window after the easiest one.
    for number in range(1 + int(np.ceil((1 - problem.budget / len(problem)) / settings.step - 1e-9))):
        begins = [
            min(round(number * settings.step * len(order)), len(order) - budget)
            for order, budget in zip(orders, budgets, strict=True)
        ]
        parts = [order[start : start + size] for order, start, size in zip(orders, begins, budgets, strict=True)]
        window = np.sort(np.concatenate(parts))
        if not found or (window != found[-1]).any():
            found.append(window)
    return found


def accuracies(
    candidates: list[NDArray[np.int64]], features: Features, labels: NDArray[np.int64], ridge: float
) -> NDArray[np.int64]:
    """Return how many of all samples the ridge regression of each window classifies right.

    Args:
        candidates: Positions of each window, ascending.
        features: One row per sample.
        labels: One class number per sample.
        ridge: Penalty of the squared weights.

    Returns:
        One count per window, shape ``[windows]``.
    """
    classes, scale = int(labels.max()) + 1, _scale(features)
    width = features.dimension + 1
    gram, cross = np.zeros((width, width)), np.zeros((width, classes))
    before, solved = np.empty(0, dtype=np.int64), []
    for window in candidates:
        for positions, sign in ((np.setdiff1d(window, before), 1.0), (np.setdiff1d(before, window), -1.0)):
            for own in np.array_split(positions, max(1, -(-len(positions) // CHUNK))):
                rows = _with_constant(features.take(own), scale)
                gram += sign * (rows.T @ rows)
                cross += sign * _class_sums(rows, labels[own], classes)
        solved.append(np.linalg.solve(gram + ridge * np.eye(width), cross))
        before = window
    right = np.zeros(len(candidates), dtype=np.int64)
    for start, rows in _all_rows(features, scale):
        own = labels[start : start + len(rows)]
        right += [int(((rows @ weights).argmax(axis=1) == own).sum()) for weights in solved]
    return right


def _scale(features: Features) -> float:
    total = sum(float(np.square(rows, dtype=np.float64).sum()) for _, rows in features.chunks())
    return float(np.sqrt(total / len(features))) or 1.0


def _all_rows(features: Features, scale: float) -> Iterator[tuple[int, Floats]]:
    for start, rows in features.chunks():
        yield start, _with_constant(rows, scale)


def _with_constant(rows: NDArray[np.float32], scale: float) -> Floats:
    return np.concatenate([rows.astype(np.float64) / scale, np.ones((len(rows), 1))], axis=1)


def _class_sums(rows: Floats, labels: NDArray[np.int64], classes: int) -> Floats:
    """Return f y^T, the sum of the rows of each class, shape ``[width, classes]``."""
    order = np.argsort(labels, kind="stable")
    sums = np.zeros((rows.shape[1], classes))
    present, starts = np.unique(labels[order], return_index=True)
    if len(present):
        sums[:, present] = np.add.reduceat(rows[order], starts, axis=0).T
    return sums
