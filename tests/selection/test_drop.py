"""`drop` against Algorithm 1 of its source; its quotas sum to the budget."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import moso
from moso.selection.selectors.drop import drop_shares
from refusals import refusal


def algorithm_1(sizes, errors, budget):
    """Class densities as in the source, class after class."""
    unsaturated, excess, density = set(range(len(sizes))), float(budget), [0.0] * len(sizes)
    while excess > 1e-9:
        z = sum(sizes[k] * errors[k] for k in unsaturated) / excess
        for k in sorted(unsaturated):
            more = errors[k] / z
            density[k] += more
            excess -= sizes[k] * more
            if density[k] > 1:
                unsaturated.discard(k)
                excess += sizes[k] * (density[k] - 1)
                density[k] = 1.0
    return np.array(density)


classes = st.lists(st.tuples(st.integers(1, 60), st.floats(0.01, 1)), min_size=2, max_size=8)


@given(classes, st.floats(0.05, 1))
def test_shares_are_those_of_the_source_and_quotas_sum_to_the_budget(given_classes, density):
    sizes, errors = (np.array(column) for column in zip(*given_classes, strict=True))
    budget = max(len(sizes), round(density * sizes.sum()))
    shares = drop_shares(sizes, errors, budget)
    assert np.allclose(shares, algorithm_1(sizes, errors, budget) * sizes, atol=1e-6)
    assert shares.sum() == pytest.approx(budget)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    ratio = 1 - budget / len(labels)
    kept = moso.select(None, ratio=ratio, labels=labels, selector="drop", class_error=errors)
    assert len(kept) == budget
    assert (np.abs(np.bincount(labels[kept], minlength=len(sizes)) - shares) <= 1 + 1e-6).all()


def test_a_class_twice_as_wrong_keeps_twice_as_much():
    labels = np.repeat([0, 1, 2], 100)
    kept = moso.select(None, ratio=0.7, labels=labels, selector="drop", class_error=[0.1, 0.2, 0.3])
    assert np.bincount(labels[kept]).tolist() == [15, 30, 45]


def test_where_nothing_is_wrong_classes_share_by_size():
    labels = np.repeat([0, 1], [100, 50])
    kept = moso.select(None, ratio=0.8, labels=labels, selector="drop", class_error=[0.0, 0.0])
    assert np.bincount(labels[kept]).tolist() == [20, 10]


def test_inside_a_class_the_best_if_asked():
    labels, scores = np.repeat([0, 1], 10), np.arange(20.0)
    told = {"labels": labels, "selector": "drop", "class_error": [0.1, 0.3]}
    assert moso.select(scores, ratio=0.6, inside="top", **told).tolist() == [8, 9, 14, 15, 16, 17, 18, 19]
    with refusal("evidence-missing", "drop"):
        moso.select(None, ratio=0.6, inside="top", **told)
