"""Laws of selection over every registered selector: exact budgets, ties by id, no order, the minimum of each class."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import moso
from moso.selection import SELECTORS, find_selector, kept_count
from refusals import refusal

NAMES = sorted(SELECTORS.names())
BY_CLASS = {
    *("balanced", "proportional", "drop", "herding", "facility-location", "graph-cut", "bws", "craig", "gradmatch"),
}
# A smaller budget keeps part of what a larger one keeps, where samples are taken in an order that the budget has
# no say in. `beta` looks at the ratio, `coverage` and `drop` round quotas, `infomax` solves anew, `bws` moves its
# window, and a sample may leave `gradmatch` again.
NESTED = sorted(set(NAMES) - {"beta", "bws", "coverage", "drop", "infomax", "opt", "gradmatch"})

scores_and_labels = st.lists(
    st.tuples(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0]), st.integers(0, 4)), min_size=1, max_size=60
)
ratios = st.floats(0, 0.999)
few = settings(max_examples=15, deadline=None)


def given_all(pairs):
    """Scores with many ties, and evidence of every kind, some features twice."""
    scores, labels = (np.array(column) for column in zip(*pairs, strict=True))
    draw = np.random.default_rng(len(pairs))
    features = draw.integers(0, 5, size=(len(scores), 3)).astype(np.float32)
    every = {"labels": labels, "features": features, "probability": draw.integers(0, 5, len(scores)) / 4}
    every["influences"] = features - 2
    chances = draw.integers(0, 3, size=(len(scores), 5)) + np.eye(5)[labels]  # some alike, as features are
    every["evidence"] = {"probabilities": chances / chances.sum(axis=1, keepdims=True)}
    return scores, {**every, "class_error": np.linspace(0, 0.4, 5), "hard": "low"}


def enough(selector, pairs, ratio):
    classes = len({label for _, label in pairs})
    return selector not in BY_CLASS or kept_count(len(pairs), ratio) >= classes


@pytest.mark.parametrize("selector", NAMES)
@few
@given(scores_and_labels, ratios)
def test_budgets_are_exact_and_positions_sorted_and_unique(selector, pairs, ratio):
    assume(enough(selector, pairs, ratio))
    scores, every = given_all(pairs)
    kept = moso.select(scores, ratio=ratio, selector=selector, **every)
    assert len(kept) == len(scores) - math.floor(ratio * len(scores) + 1e-9)
    assert (np.diff(kept) > 0).all()


@pytest.mark.parametrize("selector", NESTED)
@few
@given(scores_and_labels, ratios, ratios)
def test_a_larger_ratio_keeps_a_subset(selector, pairs, one, other):
    low, high = sorted((one, other))
    assume(enough(selector, pairs, high))
    scores, every = given_all(pairs)
    more = moso.select(scores, ratio=low, selector=selector, **every)
    fewer = moso.select(scores, ratio=high, selector=selector, **every)
    assert set(fewer) <= set(more)


@pytest.mark.parametrize("selector", NAMES)
@few
@given(scores_and_labels, ratios, st.randoms())
def test_what_is_kept_does_not_depend_on_the_order_of_the_data(selector, pairs, ratio, random):
    assume(enough(selector, pairs, ratio))
    scores, every = given_all(pairs)
    ids = np.array([f"{number:03d}" for number in range(len(scores))])
    shuffled = np.array(random.sample(range(len(scores)), len(scores)))
    rows = {name: every[name][shuffled] for name in ("labels", "features", "probability", "influences")}
    rows["evidence"] = {name: table[shuffled] for name, table in every["evidence"].items()}
    kept = moso.select(scores, ratio=ratio, selector=selector, ids=ids, **every)
    again = moso.select(scores[shuffled], ratio=ratio, selector=selector, ids=ids[shuffled], **{**every, **rows})
    assert set(ids[kept]) == set(ids[shuffled][again])


@pytest.mark.parametrize("selector", NAMES)
@few
@given(scores_and_labels, ratios, st.integers(1, 4))
def test_every_class_keeps_the_minimum_or_all_it_has(selector, pairs, ratio, minimum):
    scores, every = given_all(pairs)
    sizes = np.bincount(every["labels"], minlength=5)
    budget = kept_count(len(scores), ratio)
    assume(np.minimum(sizes, minimum).sum() <= budget)
    kept = moso.select(scores, ratio=ratio, selector=selector, min_per_class=minimum, **every)
    assert len(kept) == budget
    assert (np.bincount(every["labels"][kept], minlength=5) >= np.minimum(sizes, minimum)).all()


@pytest.mark.parametrize("selector", NAMES)
def test_a_minimum_that_is_met_anyway_changes_nothing(selector, make_evidence):
    every = make_evidence(60)
    scores = np.random.default_rng(1).normal(size=60)
    plain = moso.select(scores, ratio=0.3, selector=selector, **every)
    least = np.bincount(every["labels"][plain]).min()
    assert moso.select(scores, ratio=0.3, selector=selector, min_per_class=least, **every).tolist() == plain.tolist()


def test_a_minimum_takes_the_class_that_falls_short_by_the_same_selector():
    scores = np.array([9.0, 8.0, 7.0, 6.0, 5.0, 1.0, 3.0, 2.0])
    labels = np.array([0, 0, 0, 0, 0, 1, 1, 1])
    assert moso.select(scores, ratio=0.5, labels=labels, selector="top").tolist() == [0, 1, 2, 3]
    kept = moso.select(scores, ratio=0.5, labels=labels, selector="top", min_per_class=2)
    assert kept.tolist() == [0, 1, 6, 7]


@pytest.mark.parametrize("selector", NAMES)
def test_all_scores_equal_is_no_trouble(selector, make_evidence):
    every = make_evidence(40)
    assert len(moso.select(np.ones(40), ratio=0.7, selector=selector, **every)) == 12


@pytest.mark.parametrize(
    "selector", [name for name in NAMES if name in {"random", "softmax", "beta", "coverage", "drop"}]
)
def test_another_seed_draws_other_samples_and_the_same_seed_the_same(selector, make_evidence):
    every = make_evidence(200)
    scores = np.random.default_rng(1).uniform(size=200)
    kept = [moso.select(scores, ratio=0.5, selector=selector, seed=seed, **every).tolist() for seed in (0, 0, 1)]
    assert kept[0] == kept[1] != kept[2]


@pytest.mark.parametrize("selector", ["random", "softmax"])
def test_a_draw_belongs_to_its_sample_and_to_nobody_else(selector):
    # Without a few others, those that stay keep their order among themselves.
    ids = [f"sample-{number}" for number in range(50)]
    scores = np.random.default_rng(0).normal(size=50)
    order = {}
    for part in (range(50), range(0, 50, 2)):
        part = list(part)
        spread = {} if selector == "random" else {"unit": "score"}
        found = [
            {
                ids[part[p]]
                for p in moso.select(scores[part], ratio=ratio, selector=selector, ids=[ids[p] for p in part], **spread)
            }
            for ratio in np.arange(len(part)) / len(part)
        ]
        order[len(part)] = {name: sum(name in kept for kept in found) for name in (ids[p] for p in part)}
    few_first = sorted(order[25], key=order[25].get)
    all_first = [name for name in sorted(order[50], key=order[50].get) if name in order[25]]
    assert few_first == all_first


@given(scores_and_labels, ratios)
def test_balanced_takes_the_best_of_each_class_equally(pairs, ratio):
    assume(enough("balanced", pairs, ratio))
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
def test_proportional_leaves_no_seat_that_another_class_had_a_better_claim_to(pairs, ratio):
    """What Sainte-Laguë's method promises. (Shares to within one it does not: a class of many may get one more.)"""
    assume(enough("proportional", pairs, ratio))
    scores, labels = map(np.array, zip(*pairs, strict=True))
    kept = moso.select(scores, ratio=ratio, labels=labels, selector="proportional")
    sizes, seats = np.bincount(labels), np.bincount(labels[kept], minlength=labels.max() + 1)
    given, there = seats > 0, (sizes > 0) & (seats < sizes)
    if given.any() and there.any():
        last, next_one = (seats[given] - 0.5) / sizes[given], (seats[there] + 0.5) / sizes[there]
        assert last.max() <= next_one.min() + 1e-12


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


def test_median_by_rank_is_the_middle_of_the_order_and_goes_class_by_class():
    # Moderate's code: of the sorted distances, those between the quantiles 1/2 - share/2 and 1/2 + share/2.
    distances = np.random.default_rng(0).exponential(size=40)
    labels = np.repeat([0, 1], 20)
    together = moso.select(distances, ratio=0.7, selector="median", by="rank")
    assert set(together) == set(np.argsort(distances)[round(40 * 0.35) : round(40 * 0.65)])
    each = moso.select(distances, ratio=0.7, labels=labels, selector="median", by="rank", classes="proportional")
    expected = {int(p) for c in (0, 1) for p in c * 20 + np.argsort(distances[c * 20 : c * 20 + 20])[7:13]}
    assert set(each) == expected


def test_ratio_is_the_share_removed_to_the_sample():
    assert [kept_count(10, ratio) for ratio in (0, 0.1, 0.3, 0.7, 0.99)] == [10, 9, 7, 3, 1]
    assert kept_count(50_000, 0.7) == 15_000


@pytest.mark.parametrize("ratio", [1.0, -0.1, 1.5, float("nan")])
def test_ratios_outside_are_refused(ratio):
    with refusal("ratio-out-of-range", 0, 1):
        moso.select([1.0, 2.0], ratio=ratio, selector="top")


def test_bad_input_is_one_sentence():
    with refusal("ratio-out-of-range", 10):
        kept_count(10, 1 - 1e-12)
    with refusal("values-not-finite", 1):
        moso.select([1.0, float("nan")], ratio=0.5, selector="top")
    with refusal("shape-mismatch", "(1, 2)"):
        moso.select([[1.0, 2.0]], ratio=0.5, selector="top")
    with refusal("evidence-missing", "balanced"):
        moso.select([1.0, 2.0], ratio=0.5, selector="balanced")
    with refusal("length-mismatch", 2, 3):
        moso.select([1.0, 2.0], ratio=0.5, labels=[0, 1, 1])
    with refusal("unknown-name", "balnced", "balanced"):
        moso.select([1.0, 2.0], ratio=0.5, labels=[0, 1], selector="balnced")
    with refusal("ids-not-unique", 1):
        moso.select([1.0, 2.0], ratio=0.5, ids=["a", "a"], selector="top")
    with refusal("budget-impossible", "min_per_class", 2, 4, 3, 6):
        moso.select(np.ones(6), ratio=0.5, labels=[0, 0, 0, 1, 1, 1], selector="top", min_per_class=2)
    with refusal("labels-missing", "min_per_class"):
        moso.select(np.ones(6), ratio=0.5, selector="top", min_per_class=2)
    with refusal("setting-invalid", "min_per_class", -1):
        moso.select(np.ones(6), ratio=0.5, selector="top", min_per_class=-1)


def test_bad_evidence_is_one_sentence(make_evidence):
    every = make_evidence(20)
    scores = np.ones(20)
    for name, change, told in [
        ("coverage", {"hard": "hardest"}, ("setting-invalid", "high", "low")),
        ("k-center", {"features": np.ones(20)}, ("shape-mismatch", "(20,)")),
        ("k-center", {"features": np.ones((19, 2))}, ("length-mismatch", 20, 19)),
        ("d2", {"features": np.full((20, 2), np.nan)}, ("values-not-finite", 0)),
        ("beta", {"probability": np.full(20, 1.5)}, ("setting-invalid", 0, "1.5", 1)),
        ("beta", {"probability": np.ones(3)}, ("length-mismatch", 20, 3)),
        ("drop", {"class_error": [0.1]}, ("shape-mismatch", 3)),
        ("drop", {"class_error": {0: 0.1, 2: 0.1}}, ("classes-mismatch", 1)),
        ("drop", {"class_error": [0.1, 7, 0.1]}, ("setting-invalid", 0, 1)),
    ]:
        with refusal(*told):
            moso.select(scores, ratio=0.5, selector=name, **{**every, **change})
    for name in ("coverage", "softmax", "beta", "d2", "infomax"):
        with refusal("values-not-finite"):
            moso.select([np.inf, *scores[1:]], ratio=0.5, selector=name, **every)


@pytest.mark.parametrize("selector", NAMES)
def test_a_selector_without_its_evidence_says_what_to_give(selector, make_evidence):
    every = {**make_evidence(30), "scores": np.ones(30)}
    spelled, found = {"class-error": "class_error", "probabilities": "evidence"}, find_selector(selector)
    for need in found.needed(found.fitting({}, by_class=False)):
        less = {name: value for name, value in every.items() if name != spelled.get(need, need)}
        with refusal("evidence-missing", selector, spelled.get(need, need)):
            moso.select(less.pop("scores", None), ratio=0.5, selector=selector, **less)
    # And it is content with what it declares.
    wanted = {spelled.get(need, need) for need in found.needed()}
    only = {name: value for name, value in every.items() if name in wanted}
    count = {} if only else {"ids": range(30)}
    assert len(moso.select(only.pop("scores", None), ratio=0.5, selector=selector, **only, **count)) == 15


@pytest.mark.parametrize("selector", ["herding", "facility-location", "graph-cut"])
def test_without_labels_all_samples_are_taken_together_unless_the_caller_says_otherwise(selector, make_evidence):
    features = make_evidence(30)["features"]
    told = {"ratio": 0.5, "selector": selector, "features": features}
    together = moso.select(None, classes="together", **told)
    assert moso.select(None, **told).tolist() == together.tolist()
    with refusal("evidence-missing", selector, "labels"):
        moso.select(None, classes="balanced", **told)


@pytest.mark.parametrize("selector", sorted(BY_CLASS))
def test_fewer_samples_than_classes_is_one_sentence(selector, make_evidence):
    every = make_evidence(60, classes=10)
    with refusal("budget-impossible", selector, 6, 60, 10):
        moso.select(np.ones(60), ratio=0.9, selector=selector, **every)
    assert len(moso.select(np.ones(60), ratio=0.9, selector="top", **every)) == 6


def test_own_selectors_are_accepted_and_checked():
    from moso.selection import Selector

    first = Selector("first", "the first ones", lambda problem: np.arange(problem.budget))
    assert moso.select([1.0, 2.0, 3.0, 4.0], ratio=0.5, selector=first).tolist() == [0, 1]
    assert moso.select([1.0, 2.0], ratio=0.5, selector=first, ids=["b", "a"]).tolist() == [1]
    greedy = Selector("greedy", "too many", lambda problem: np.arange(problem.budget + 1))
    with refusal("extension-broken", "greedy", 3, 2):
        moso.select([1.0, 2.0, 3.0, 4.0], ratio=0.5, selector=greedy)


def test_labels_may_be_names_and_class_errors_go_by_them():
    labels = np.array(["cat", "dog", "cat", "dog"] * 10)
    kept = moso.select(np.ones(40), ratio=0.5, labels=labels, selector="drop", class_error={"cat": 0.3, "dog": 0.1})
    assert (labels[kept] == "cat").sum() == 15
