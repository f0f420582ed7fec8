"""Decisions by hand: respected, within the same budget, and without moving anybody else further than they must."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moso import select
from moso.selection import kept_count
from refusals import refusal

SELECTORS = ["top", "bottom", "balanced", "proportional", "median", "random"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_decisions_are_respected_and_budgets_stay_exact(data):
    # Enough that all six decided about can stay or go, and one of each class besides.
    count = data.draw(st.integers(24, 60))
    draw = np.random.default_rng(data.draw(st.integers(0, 1000)))
    scores, labels = draw.integers(0, 6, count).astype(float), np.arange(count) % 3
    decided = draw.permutation(count)
    keep, drop = np.split(decided[: data.draw(st.integers(0, 6))], [data.draw(st.integers(0, 6))])
    ratio, selector = data.draw(st.floats(0.3, 0.6)), data.draw(st.sampled_from(SELECTORS))
    kept = select(scores, ratio=ratio, labels=labels, selector=selector, always_keep=keep, always_drop=drop)
    assert len(kept) == kept_count(count, ratio)
    assert set(keep.tolist()) <= set(kept.tolist())
    assert not set(drop.tolist()) & set(kept.tolist())


def test_top_fills_up_with_the_next_best():
    scores = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    assert select(scores, ratio=0.5, selector="top", always_drop=[0]).tolist() == [1, 2, 3]
    assert select(scores, ratio=0.5, selector="top", always_keep=[5]).tolist() == [0, 1, 5]


def test_positions_are_those_of_the_users_rows_whatever_the_ids():
    scores, ids = np.array([0.9, 0.8, 0.7, 0.6]), ["d", "b", "c", "a"]
    assert select(scores, ratio=0.5, selector="top", ids=ids, always_keep=[3], always_drop=[0]).tolist() == [1, 3]


def test_all_decided_needs_no_selector():
    assert select([0.1, 0.2, 0.3], ratio=0.4, labels=[0, 1, 2], always_keep=[0, 2], always_drop=[1]).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("decisions", "told"),
    [
        ({"always_keep": [0, 1, 2]}, ("budget-impossible", 3, 2, 4)),
        ({"always_drop": [0, 1, 2]}, ("budget-impossible", 3, 2, 4)),
        ({"always_keep": [1], "always_drop": [1]}, ("settings-conflict", 1)),
        ({"always_keep": [4]}, ("sample-unknown", 4)),
        ({"always_drop": [-1]}, ("sample-unknown", -1)),
    ],
)
def test_decisions_that_cannot_be_are_refused(decisions, told):
    with refusal(*told):
        select([0.1, 0.2, 0.3, 0.4], ratio=0.5, selector="top", **decisions)
