"""Laws of every registered selector on degenerate data: copies, zeros, one class, a class of one, extreme ratios.

`test_in_memory.py` holds budgets, order, nesting and the minimum per class on random data; the tests here hold them on
data where distances, norms, variances or classes vanish, and the refusal of what is not a number.
"""

import numpy as np
import pytest

import moso
from moso.selection import SELECTORS, find_selector
from refusals import refusal

NAMES = sorted(SELECTORS.names())
COUNT = 24
# They give every class a share without a setting `classes`.
BY_QUOTA = {"balanced", "proportional", "drop"}
# What they compute with features does not depend on the features' scale.
SCALE_FREE = sorted(set(NAMES) - {"bws", "d2", "opt"})
TABLES = {"features": "features", "influences": "influences", "probabilities": "evidence"}


def ordinary(labels=None, seed=0):
    """Return scores and evidence of every kind for `COUNT` samples of three classes."""
    draw = np.random.default_rng(seed)
    labels = np.arange(COUNT) % 3 if labels is None else labels
    width = int(labels.max()) + 1
    chances = draw.dirichlet(np.ones(width), COUNT)
    every = {
        "labels": labels,
        "features": draw.normal(size=(COUNT, 4)),
        "influences": draw.normal(size=(COUNT, 4)),
        "probability": draw.uniform(size=COUNT),
        "class_error": np.linspace(0.1, 0.4, width),
        "hard": "low",
        "evidence": {"probabilities": chances},
    }
    return draw.normal(size=COUNT), every


def with_tables(change):
    """Return ordinary data whose tables went through `change`, probabilities through its distributions."""
    scores, every = ordinary()
    for name in ("features", "influences"):
        every[name] = change(every[name])
    return scores, every


def copies():
    scores, every = ordinary()
    twin = np.arange(COUNT) // 4 * 4
    rows = {name: every[name][twin] for name in ("features", "influences", "probability", "labels")}
    return scores[twin], {**every, **rows, "evidence": {"probabilities": every["evidence"]["probabilities"][twin]}}


def sure():
    """Every sample is predicted with probability 1 and rightly, so all last-layer gradients are 0."""
    scores, every = ordinary()
    return scores, {**every, "evidence": {"probabilities": np.eye(3)[every["labels"]]}, "probability": np.ones(COUNT)}


def wrong():
    """Every sample is predicted with probability 1 and wrongly."""
    scores, every = ordinary()
    certain = np.eye(3)[(every["labels"] + 1) % 3]
    return scores, {**every, "evidence": {"probabilities": certain}, "probability": np.zeros(COUNT)}


def zero_row(rows):
    rows = rows.copy()
    rows[[2, 7]] = 0
    return rows


DEGENERATE = {
    "copies": copies,
    "all rows alike": lambda: with_tables(np.ones_like),
    "all rows zero": lambda: with_tables(np.zeros_like),
    "two rows zero": lambda: with_tables(zero_row),
    "a constant column": lambda: with_tables(lambda rows: np.column_stack([rows, np.ones(COUNT)])),
    "one column": lambda: with_tables(lambda rows: rows[:, :1]),
    "wider than samples": lambda: with_tables(lambda rows: np.tile(rows, 20)),
    "huge": lambda: with_tables(lambda rows: rows * 1e15),
    "tiny": lambda: with_tables(lambda rows: rows * 1e-15),
    "opposite": lambda: with_tables(lambda rows: rows * np.where(np.arange(COUNT) % 2, 1, -1)[:, None]),
    "one class": lambda: ordinary(np.zeros(COUNT, dtype=int)),
    "a class of one": lambda: ordinary(np.array([2] + [0, 1] * 11 + [0])),
    "a label without samples": lambda: ordinary(np.arange(COUNT) % 2 * 3),
    "equal scores": lambda: (np.zeros(COUNT), ordinary()[1]),
    "sure and right": sure,
    "sure and wrong": wrong,
}


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("selector", NAMES)
def test_degenerate_data_keeps_the_budget_and_does_not_depend_on_its_order(selector, case):
    scores, every = DEGENERATE[case]()
    ids = np.array([f"{number:02d}" for number in range(COUNT)])
    order = np.random.default_rng(1).permutation(COUNT)
    rows = {name: every[name][order] for name in ("labels", "features", "influences", "probability")}
    rows["evidence"] = {name: table[order] for name, table in every["evidence"].items()}
    for keep in (3, 4, 12, COUNT - 1, COUNT):
        kept = moso.select_weighted(scores, keep=keep, selector=selector, ids=ids, **every)
        again = moso.select_weighted(
            scores[order], keep=keep, selector=selector, ids=ids[order], **{**every, **rows}
        ).within(order)
        assert len(kept.positions) == len(set(kept.positions.tolist())) == keep
        back = np.argsort(again.positions)
        assert again.positions[back].tolist() == kept.positions.tolist()
        assert (kept.weights is None) == (again.weights is None)
        if kept.weights is not None:
            assert (kept.weights > 0).all()
            assert np.isfinite(kept.weights).all()
            assert again.weights[back].tolist() == kept.weights.tolist()


@pytest.mark.parametrize("selector", NAMES)
def test_one_sample_of_one_class_is_kept(selector):
    scores, every = ordinary(np.zeros(COUNT, dtype=int))
    assert len(moso.select(scores, keep=1, selector=selector, **every)) == 1
    first = {name: every[name][:1] for name in ("labels", "features", "influences", "probability")}
    first["evidence"] = {"probabilities": every["evidence"]["probabilities"][:1]}
    assert moso.select(scores[:1], keep=1, selector=selector, **{**every, **first}).tolist() == [0]


@pytest.mark.parametrize("selector", NAMES)
def test_nothing_removed_keeps_everything(selector):
    scores, every = ordinary()
    assert moso.select(scores, ratio=0, selector=selector, **every).tolist() == list(range(COUNT))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("selector", NAMES)
def test_what_is_not_finite_is_refused_where_it_is_read(selector, value):
    scores, every = ordinary()
    for need in find_selector(selector).needed() & TABLES.keys():
        rows = every["evidence"]["probabilities"] if need == "probabilities" else every[need]
        rows = rows.copy()
        rows[5, 1] = value
        changed = {"evidence": {"probabilities": rows}} if need == "probabilities" else {need: rows}
        with refusal("values-not-finite", need, 5):
            moso.select(scores, ratio=0.5, selector=selector, **{**every, **changed})


@pytest.mark.parametrize("selector", NAMES)
def test_a_score_that_is_nan_is_refused_with_its_sample(selector):
    scores, every = ordinary()
    scores[7] = np.nan
    with refusal("values-not-finite", 7):
        moso.select(scores, ratio=0.5, selector=selector, **every)


@pytest.mark.parametrize("selector", NAMES)
def test_more_classes_than_kept_samples_is_exact_or_refused(selector):
    scores, every = ordinary(np.arange(COUNT) // 2)
    if getattr(find_selector(selector).resolved({}), "classes", "together") != "together" or selector in BY_QUOTA:
        with refusal("budget-impossible", selector, 5, 12):
            moso.select(scores, keep=5, selector=selector, **every)
    else:
        assert len(moso.select(scores, keep=5, selector=selector, **every)) == 5


@pytest.mark.parametrize("selector", NAMES)
def test_the_type_of_numbers_does_not_decide(selector):
    """float32 and float64 tables of numbers that both can hold keep the same samples."""
    scores, every = ordinary()
    every["features"], every["influences"] = (every[one].astype(np.float32) for one in ("features", "influences"))
    single = moso.select(scores, ratio=0.5, selector=selector, **every)
    double = {name: every[name].astype(np.float64) for name in ("features", "influences")}
    assert moso.select(scores, ratio=0.5, selector=selector, **{**every, **double}).tolist() == single.tolist()


@pytest.mark.parametrize("power", [-80, 80])
@pytest.mark.parametrize("selector", SCALE_FREE)
def test_the_scale_of_features_does_not_decide_even_where_squares_leave_float32(selector, power):
    scores, every = ordinary()
    for name in ("features", "influences"):
        every[name] = every[name].astype(np.float32)
    plain = moso.select(scores, ratio=0.5, selector=selector, **every)
    scaled = {name: every[name] * np.float32(2.0**power) for name in ("features", "influences")}
    assert moso.select(scores, ratio=0.5, selector=selector, **{**every, **scaled}).tolist() == plain.tolist()


@pytest.mark.parametrize("selector", [name for name in NAMES if find_selector(name).needed() & {"features"}])
def test_features_beyond_float32_are_refused(selector):
    scores, every = ordinary()
    with refusal("values-not-finite", "features", 0):
        moso.select(scores, ratio=0.5, selector=selector, **{**every, "features": every["features"] * 1e39})
