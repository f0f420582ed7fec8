"""`bws`: keep the stretch of a difficulty order on which a linear classifier learns all of the training data best.

Believes that how hard the kept samples should be depends on how many are kept, and that a cheap classifier can tell.
Samples are ordered from the hardest to the easiest. A window is as many neighbours in this order as are to stay; the
first one begins at the hardest sample, each further one `step` of all samples later, and the last one ends at the
easiest. A window S is judged by ridge regression of the one-hot labels y on the features f of its samples,

    W_S = argmin_W  sum_{i in S} | y_i - W f_i |^2 + ridge * |W|^2

and by how many training samples it classifies right, argmax_c (W_S f_i)_c = y_i. The best window is kept; of equally
good ones, the easiest. No test data is looked at. f has a constant 1 added (an intercept) and is not scaled, so `ridge`
is in units of squared features, as in the source.

- `classes = "proportional"` (the source's) gives every class an order of its own; each gives its share of the budget
  from the same place of that order. A window of all classes together may lack a class.
- `judged` is the share of each class, its easiest samples, that counts as right or wrong: all of them, or the easiest
  half, which the source takes where labels are known to be noisy. Mislabelled samples are errors of every window.

In the primal form, f f^T and f y^T of a window are those of the window before it plus what enters and minus what
leaves: O(N d^2) for all windows together, O(N d C) per window for the predictions, (d + C) d numbers of memory. More
than `WIDEST` features are refused.

Source: Choi, Ki & Chung, BWS: Best Window Selection Based on Sample Scores for Data Pruning across Broad Ranges, ICML
2024 (arXiv 2406.03057): windows 5 % apart, kernel ridge regression with a linear kernel, accuracy on the training set.
From public code of the source's experiments: windows per class, lambda = 1 on unscaled features with a constant 1, the
easiest half under label noise. Three differences: the code takes features of a network that was trained for 20 epochs
on a random subset of the window's size, here they are those of the network that was trained on all data; the code
breaks ties of scores at random, here they go by id; the window that ends at the easiest sample is judged also where
the step does not meet it.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.linalg import eigh
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

from moso import errors
from moso.selection.classes import ClasswiseSettings, members
from moso.selection.feature_rows import CHUNK, Features
from moso.selection.orders import best_first
from moso.selection.problem import Problem, lacking
from moso.selection.quotas import check_every_class, class_quotas

WIDEST = 8192
# Below this inverse condition number, rounding errors decide what a linear system says.
_ILL = 1e-13
Floats = NDArray[np.float64]


class BwsSettings(ClasswiseSettings):
    """Settings of `bws`: how far windows are apart, the ridge, and what windows are judged on."""

    later: ClassVar[frozenset[str]] = frozenset({"judged"})

    step: float = Field(0.05, gt=0, lt=1, description="share of all samples by which a window begins after another")
    ridge: float = Field(1.0, gt=0, description="penalty of the ridge regression, in units of squared features")
    judged: float = Field(
        1.0, gt=0, le=1, description="share of each class, its easiest samples, that windows are judged on"
    )


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
    right = accuracies(candidates, features, labels, settings.ridge, _judges(problem, labels, settings.judged))
    return candidates[int(len(right) - 1 - np.argmax(right[::-1]))]


def windows(problem: Problem, settings: BwsSettings) -> list[NDArray[np.int64]]:
    """Return the candidate windows, from the hardest to the easiest, each with `budget` positions.

    Example:
        >>> problem = Problem(np.array([5.0, 4.0, 3.0, 2.0]), 2, np.array([0, 1, 0, 1]), hard="high")
        >>> [window.tolist() for window in windows(problem, BwsSettings(step=0.25))]
        [[0, 1], [2, 3]]
        >>> [window.tolist() for window in windows(problem, BwsSettings(step=0.25, classes="together"))]
        [[0, 1], [1, 2], [2, 3]]
    """
    hardest_first = _hardest_first(problem)
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
    candidates: list[NDArray[np.int64]],
    features: Features,
    labels: NDArray[np.int64],
    ridge: float,
    judges: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Return how many samples the ridge regression of each window classifies right.

    Args:
        candidates: Positions of each window, ascending.
        features: One row per sample.
        labels: One class number per sample.
        ridge: Penalty of the squared weights.
        judges: Ascending positions of the samples that are counted; None means all.

    Returns:
        One count per window, shape ``[windows]``.
    """
    classes, width = int(labels.max()) + 1, features.dimension + 1
    gram, cross = np.zeros((width, width)), np.zeros((width, classes))
    before, solved = np.empty(0, dtype=np.int64), []
    for window in candidates:
        for positions, sign in ((np.setdiff1d(window, before), 1.0), (np.setdiff1d(before, window), -1.0)):
            for own in np.array_split(positions, max(1, -(-len(positions) // CHUNK))):
                rows = _with_constant(features.take(own))
                gram += sign * (rows.T @ rows)
                cross += sign * _class_sums(rows, labels[own], classes)
        solved.append(_solved(gram, cross, ridge))
        before = window
    right = np.zeros(len(candidates), dtype=np.int64)
    counted, answers = (features, labels) if judges is None else (features.subset(judges), labels[judges])
    for start, some in counted.chunks():
        rows, own = _with_constant(some), answers[start : start + len(some)]
        right += [int(((rows @ weights).argmax(axis=1) == own).sum()) for weights in solved]
    return right


def _hardest_first(problem: Problem) -> NDArray[np.int64]:
    return best_first(problem.scores if problem.hard == "high" else -problem.scores)


def _judges(problem: Problem, labels: NDArray[np.int64], share: float) -> NDArray[np.int64] | None:
    """Return the ascending positions of the easiest `share` of each class, at least one; None for all samples."""
    if share == 1:
        return None
    hardest_first = _hardest_first(problem)
    easiest = [hardest_first[own[-max(1, round(share * len(own))) :]] for _, own in members(labels[hardest_first])]
    return np.sort(np.concatenate(easiest))


def _solved(gram: Floats, cross: Floats, ridge: float) -> Floats:
    """Return (gram + ridge)^-1 cross, shape ``[width, classes]``."""
    regular = gram + ridge * np.eye(len(gram))
    # Scaled to a diagonal of 1, so that the constant counts beside features of any size.
    scale = 1 / np.sqrt(regular.diagonal())[:, None]
    regular *= scale * scale.T
    factor, failed = dpotrf(regular)
    if not failed and dpocon(factor, np.abs(regular).sum(axis=0).max())[0] > _ILL:
        return np.asarray(scale * dpotrs(factor, scale * cross)[0])
    # The ridge vanishes beside the features: directions that the window does not have are left out, because only
    # rounding errors fill them.
    values, directions = eigh(regular)
    there = values > _ILL * values[-1]
    directions = directions[:, there]
    return np.asarray(scale * (directions @ ((directions.T @ (scale * cross)) / values[there, None])))


def _with_constant(rows: NDArray[np.float32]) -> Floats:
    return np.concatenate([rows.astype(np.float64), np.ones((len(rows), 1))], axis=1)


def _class_sums(rows: Floats, labels: NDArray[np.int64], classes: int) -> Floats:
    """Return f y^T, the sum of the rows of each class, shape ``[width, classes]``."""
    order = np.argsort(labels, kind="stable")
    sums = np.zeros((rows.shape[1], classes))
    present, starts = np.unique(labels[order], return_index=True)
    if len(present):
        sums[:, present] = np.add.reduceat(rows[order], starts, axis=0).T
    return sums
