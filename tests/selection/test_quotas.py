"""Quotas from sizes alone say what the selectors that sort all samples say."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import moso
from moso.selection.quotas import apportion, balanced_quotas, proportional_quotas

sizes_and_budget = (
    st.lists(st.integers(1, 40), min_size=1, max_size=8)
    .map(np.array)
    .flatmap(lambda sizes: st.tuples(st.just(sizes), st.integers(len(sizes), int(sizes.sum()))))
)


def kept_by(selector, sizes, budget):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    ratio = 1 - budget / len(labels)
    kept = moso.select(np.zeros(len(labels)), ratio=ratio, labels=labels, selector=selector)
    return np.bincount(labels[kept], minlength=len(sizes))


@given(sizes_and_budget)
def test_quotas_are_what_the_selectors_keep(given_problem):
    sizes, budget = given_problem
    assert balanced_quotas(sizes, budget).tolist() == kept_by("balanced", sizes, budget).tolist()
    assert proportional_quotas(sizes, budget).tolist() == kept_by("proportional", sizes, budget).tolist()


@given(sizes_and_budget, st.integers(0, 1000))
def test_apportioned_shares_sum_to_the_budget_and_fit(given_problem, seed):
    sizes, budget = given_problem
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(sizes))) * budget
    quotas = apportion(shares, budget, sizes)
    assert quotas.sum() == budget
    assert (quotas <= sizes).all()
    free = quotas < sizes
    assert (quotas[free] >= np.floor(shares[free] + 1e-9)).all()
