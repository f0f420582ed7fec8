"""`bws`: windows restated, and their accuracies against scikit-learn's kernel ridge regression."""

from importlib import import_module

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

import moso
from moso.selection import Features, Problem
from moso.selection.selectors.bws import BwsSettings, accuracies, windows
from refusals import refusal


def made(count=240, classes=3, seed=0, dimension=6, spread=1.0):
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, classes, count)
    features = spread * draw.normal(size=(count, dimension)) + 2 * np.eye(classes, dimension)[labels]
    hardness = np.linalg.norm(features - 2 * np.eye(classes, dimension)[labels], axis=1)
    return features.astype(np.float32), labels, hardness


def counted_by_scikit_learn(window, features, labels, ridge, judges=slice(None)):
    rows = features.astype(np.float64)
    rows = np.column_stack([rows, np.ones(len(rows))])
    model = KernelRidge(alpha=ridge, kernel="linear").fit(rows[window], np.eye(labels.max() + 1)[labels[window]])
    return int((model.predict(rows[judges]).argmax(axis=1) == labels[judges]).sum())


@pytest.mark.parametrize("ridge", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("classes", ["together", "proportional"])
def test_accuracies_are_those_of_kernel_ridge_regression(ridge, classes):
    features, labels, hardness = made()
    problem = Problem(hardness, 60, labels, {"features": Features(features)}, hard="high")
    found = windows(problem, BwsSettings(classes=classes))
    expected = [counted_by_scikit_learn(window, features, labels, ridge) for window in found]
    assert accuracies(found, Features(features), labels, ridge).tolist() == expected
    assert len(set(expected)) > 1


def test_windows_slide_from_the_hardest_to_the_easiest_and_have_the_size_of_the_budget():
    scores = np.random.default_rng(0).normal(size=100)
    for hard, sign in (("high", -1), ("low", 1)):
        order = np.argsort(sign * scores, kind="stable")
        found = windows(Problem(scores, 30, np.zeros(100, dtype=int), hard=hard), BwsSettings(step=0.1))
        assert [set(one) for one in found] == [set(order[start : start + 30]) for start in range(0, 71, 10)]
    uneven = windows(Problem(scores, 75, np.zeros(100, dtype=int), hard="high"), BwsSettings(step=0.1))
    assert [set(one) for one in uneven] == [set(np.argsort(-scores)[start : start + 75]) for start in (0, 10, 20, 25)]


def test_the_best_window_is_kept_and_of_equal_ones_the_easiest():
    features, labels, hardness = made(seed=3)
    problem = Problem(hardness, 60, labels, hard="high")
    found = windows(problem, BwsSettings())
    counts = [counted_by_scikit_learn(window, features, labels, 1.0) for window in found]
    best = max(number for number, count in enumerate(counts) if count == max(counts))
    told = {"features": features, "labels": labels, "hard": "high"}
    assert moso.select(hardness, keep=60, selector="bws", **told).tolist() == found[best].tolist()
    # The easy samples are as good as the rest here, and constant features tell no window from another.
    kept = moso.select(hardness, keep=60, selector="bws", **{**told, "features": np.ones((240, 2))})
    assert len(kept) == 60


def test_under_label_noise_the_window_avoids_the_hardest():
    features, labels, _ = made(count=600, spread=0.5)
    draw = np.random.default_rng(1)
    noisy = draw.uniform(size=600) < 0.2
    labels = np.where(noisy, (labels + 1) % 3, labels)
    hardness = noisy + draw.uniform(size=600)  # mislabelled samples are the hardest
    kept = moso.select(hardness, ratio=0.7, selector="bws", features=features, labels=labels, hard="high")
    assert noisy[kept].mean() < 0.05


def test_class_by_class_windows_keep_quotas():
    features, labels, hardness = made(count=90)
    hardness = hardness + 10 * (labels == 0)  # one class is the hardest as a whole
    told = {"features": features, "labels": labels, "hard": "high"}
    kept = moso.select(hardness, keep=30, selector="bws", classes="balanced", **told)
    assert np.bincount(labels[kept]).tolist() == [10, 10, 10]


def test_all_of_the_data_is_one_window():
    _, labels, hardness = made(count=30)
    found = windows(Problem(hardness, 30, labels, hard="high"), BwsSettings())
    assert [one.tolist() for one in found] == [list(range(30))]


def test_one_class_identical_rows_and_zero_rows_are_no_trouble():
    for features in (np.zeros((20, 3)), np.ones((20, 3))):
        for labels in (np.zeros(20, dtype=int), np.arange(20) % 2):
            told = {"features": features.astype(np.float32), "labels": labels, "hard": "high"}
            assert len(moso.select(np.arange(20.0), ratio=0.5, selector="bws", **told)) == 10


def test_what_is_needed_is_asked_for_and_what_is_too_wide_is_refused(monkeypatch):
    features, labels, hardness = made(count=30)
    with refusal("evidence-missing", "hard", "bws"):
        moso.select(hardness, ratio=0.5, selector="bws", features=features, labels=labels)
    monkeypatch.setattr(import_module("moso.selection.selectors.bws"), "WIDEST", 5)
    with refusal("method-impossible", 5, 6):
        moso.select(hardness, ratio=0.5, selector="bws", features=features, labels=labels, hard="high")


def windows_of_the_source(scores, labels, share, step):
    """Quantiles of every class's own scores, from the hardest (highest) down, as public code of the source has them."""
    found = []
    for start in np.arange(0, 1.0001 - share, step):
        kept = set()
        for label in np.unique(labels):
            own = np.flatnonzero(labels == label)
            ascending = own[np.argsort(scores[own], kind="stable")]
            kept |= set(ascending[round(len(own) * (1 - start - share)) : round(len(own) * (1 - start))].tolist())
        found.append(kept)
    return found


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_windows_are_those_of_the_source_class_by_class(share):
    labels = np.repeat([0, 1, 2], [40, 60, 100])
    scores = np.random.default_rng(1).normal(size=200) + labels
    found = windows(Problem(scores, round(200 * share), labels, hard="high"), BwsSettings())
    assert [set(one.tolist()) for one in found] == windows_of_the_source(scores, labels, share, 0.05)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_windows_are_judged_on_the_easiest_samples_of_each_class(share):
    features, labels, hardness = made(seed=5, spread=2.0)
    easiest = []
    for label in range(3):
        own = np.flatnonzero(labels == label)
        easiest += own[np.argsort(hardness[own])][: round(share * len(own))].tolist()
    found = windows(Problem(hardness, 60, labels, hard="high"), BwsSettings())
    counts = [counted_by_scikit_learn(window, features, labels, 1.0, np.array(easiest)) for window in found]
    best = max(number for number, count in enumerate(counts) if count == max(counts))
    told = {"features": features, "labels": labels, "hard": "high", "judged": share}
    assert moso.select(hardness, keep=60, selector="bws", **told).tolist() == found[best].tolist()


def test_features_that_dwarf_the_ridge_are_solved_without_it():
    features, labels, hardness = made(count=120, dimension=6)
    features = np.column_stack([features, features])  # so that the window does not have all directions
    problem = Problem(hardness, 40, labels, hard="high")
    found = windows(problem, BwsSettings())
    expected = []
    for window in found:
        rows = np.column_stack([features.astype(np.float64) * 1024, np.ones(120)])
        # The ridge still holds the constant: as one more row that asks for a constant of 0.
        given, asked = np.vstack([rows[window], np.eye(13)[-1]]), np.vstack([np.eye(3)[labels[window]], np.zeros(3)])
        weights = np.linalg.pinv(given) @ asked
        expected.append(int(((rows @ weights).argmax(axis=1) == labels).sum()))
    assert accuracies(found, Features(features * np.float32(2.0**40)), labels, 1.0).tolist() == expected
