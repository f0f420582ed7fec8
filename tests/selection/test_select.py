"""Laws of selection: exact budgets, ties by id, monotone in the ratio."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import moso
from moso.errors import MosoError
from moso.selection import SELECTORS, kept_count

scores_and_labels = st.lists(
    st.tuples(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0]), st.integers(0, 4)), min_size=1, max_size=60
)
ratios = st.floats(0, 0.999)


@given(scores_and_labels, ratios, st.sampled_from(sorted(SELECTORS)))
def test_budgets_are_exact_and_positions_sorted_and_unique(pairs, ratio, selector):
    scores, labels = map(list, zip(*pairs, strict=True))
    kept = moso.select(scores, ratio=ratio, labels=labels, selector=selector)
    assert len(kept) == len(scores) - math.floor(ratio * len(scores) + 1e-9)
    assert (np.diff(kept) > 0).all()


@given(scores_and_labels, ratios, ratios, st.sampled_from(sorted(SELECTORS)))
def test_a_larger_ratio_keeps_a_subset(pairs, one, other, selector):
    scores, labels = map(list, zip(*pairs, strict=True))
    low, high = sorted((one, other))
    more = moso.select(scores, ratio=low, labels=labels, selector=selector)
    fewer = moso.select(scores, ratio=high, labels=labels, selector=selector)
    assert set(fewer) <= set(more)


@given(scores_and_labels, ratios, st.sampled_from(sorted(SELECTORS)), st.randoms())
def test_what_is_kept_does_not_depend_on_the_order_of_the_data(pairs, ratio, selector, random):
    scores, labels = map(np.array, zip(*pairs, strict=True))
    ids = np.array([f"{number:03d}" for number in range(len(scores))])
    shuffled = np.array(random.sample(range(len(scores)), len(scores)))
    kept = moso.select(scores, ratio=ratio, labels=labels, selector=selector, ids=ids)
    again = moso.select(scores[shuffled], ratio=ratio, labels=labels[shuffled], selector=selector, ids=ids[shuffled])
    assert set(ids[kept]) == set(ids[shuffled][again])


@given(scores_and_labels, ratios)
def test_balanced_takes_the_best_of_each_class_equally(pairs, ratio):
    scores, labels = map(np.array, zip(*pairs, strict=True))
    kept = moso.select(scores, ratio=ratio, labels=labels, selector="balanced")
    counts = {label: int((labels[kept] == label).sum()) for label in set(labels.tolist())}
    for label, count in counts.items():
        own = np.flatnonzero(labels == label)
        best = own[np.lexsort((own, -scores[own]))[:count]]
        assert set(best) == set(kept[labels[kept] == label])
        # A class has less than another by more than one only where it has no more to give.
        assert count >= max(counts.values()) - 1 or count == len(own)


@given(scores_and_labels, ratios)
def test_proportional_gives_each_class_its_share_to_within_one(pairs, ratio):
    scores, labels = map(np.array, zip(*pairs, strict=True))
    kept = moso.select(scores, ratio=ratio, labels=labels, selector="proportional")
    share = len(kept) / len(scores)
    for label in set(labels.tolist()):
        assert abs((labels[kept] == label).sum() - share * (labels == label).sum()) <= 1 + 1e-9


def test_balanced_with_all_negative_scores_keeps_each_class_and_no_sample_twice():
    labels = np.repeat([0, 1, 2], 10)
    scores = -np.arange(1.0, 31.0)  # class 0 holds the ten best: a 0/1 mask would pick other classes' zeros
    kept = moso.select(scores, ratio=0.5, labels=labels, selector="balanced")
    assert np.bincount(labels[kept]).tolist() == [5, 5, 5]
    assert kept.tolist() == [*range(5), *range(10, 15), *range(20, 25)]


def test_top_and_bottom_share_nothing_at_one_half():
    scores = np.random.default_rng(0).normal(size=40)
    assert not set(moso.select(scores, ratio=0.5, selector="top")) & set(
        moso.select(scores, ratio=0.5, selector="bottom")
    )


def test_ratio_is_the_share_removed_to_the_sample():
    assert [kept_count(10, ratio) for ratio in (0, 0.1, 0.3, 0.7, 0.99)] == [10, 9, 7, 3, 1]
    assert kept_count(50_000, 0.7) == 15_000


@pytest.mark.parametrize("ratio", [1.0, -0.1, 1.5, float("nan")])
def test_ratios_outside_are_refused(ratio):
    with pytest.raises(MosoError, match=r"outside \[0, 1\)"):
        moso.select([1.0, 2.0], ratio=ratio, selector="top")


def test_bad_input_is_one_sentence():
    with pytest.raises(MosoError, match="would keep none of 10 samples"):
        kept_count(10, 1 - 1e-12)
    with pytest.raises(MosoError, match="sample 1 is NaN"):
        moso.select([1.0, float("nan")], ratio=0.5, selector="top")
    with pytest.raises(MosoError, match="'balanced' needs labels"):
        moso.select([1.0, 2.0], ratio=0.5)
    with pytest.raises(MosoError, match="2 scores but 3 labels"):
        moso.select([1.0, 2.0], ratio=0.5, labels=[0, 1, 1])
    with pytest.raises(MosoError, match="unknown selector 'balnced'; nearest: balanced"):
        moso.select([1.0, 2.0], ratio=0.5, labels=[0, 1], selector="balnced")
    with pytest.raises(MosoError, match="only 1 different ids"):
        moso.select([1.0, 2.0], ratio=0.5, ids=["a", "a"], selector="top")


def test_own_selectors_are_accepted_and_checked():
    from moso.selection import Selector

    first = Selector("first", "the first ones", lambda problem: np.arange(problem.budget))
    assert moso.select([1.0, 2.0, 3.0, 4.0], ratio=0.5, selector=first).tolist() == [0, 1]
    greedy = Selector("greedy", "too many", lambda problem: np.arange(problem.budget + 1))
    with pytest.raises(MosoError, match="'greedy' kept 3 samples where 2"):
        moso.select([1.0, 2.0, 3.0, 4.0], ratio=0.5, selector=greedy)
