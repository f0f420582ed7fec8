"""`coverage` against Algorithm 1 of its source, written down line by line."""

import numpy as np
import pytest

import moso
from moso.selection.selectors.coverage import strata_budgets


def algorithm_1(scores, hard, cut, strata, budget):
    """How many samples of each stratum CCS draws, and which samples each stratum holds."""
    order = sorted(range(len(scores)), key=lambda z: (-scores[z] if hard == "high" else scores[z], z))
    remaining = order[int(len(scores) * cut) :]
    low, high = min(scores[z] for z in remaining), max(scores[z] for z in remaining)
    width = (high - low) / strata
    bins = {k: [] for k in range(strata)}
    for z in remaining:
        k = 0
        while k < strata - 1 and scores[z] >= low + (k + 1) * width:
            k += 1
        bins[k].append(z)
    drawn = {}
    open_bins = dict(bins)
    m = budget
    while open_bins:
        smallest = min(open_bins, key=lambda k: (len(open_bins[k]), k))
        drawn[smallest] = min(len(open_bins[smallest]), m // len(open_bins))
        m -= drawn[smallest]
        del open_bins[smallest]
    return bins, drawn


@pytest.mark.parametrize("hard", ["high", "low"])
@pytest.mark.parametrize(("cut", "strata", "ratio"), [(0.0, 10, 0.5), (0.3, 50, 0.7), (0.25, 7, 0.9), (0.1, 1, 0.8)])
def test_each_stratum_gives_what_the_source_says(hard, cut, strata, ratio):
    scores = np.random.default_rng(0).gamma(2.0, size=400)
    kept = moso.select(scores, ratio=ratio, selector="coverage", hard=hard, cut=cut, strata=strata)
    bins, drawn = algorithm_1(scores, hard, cut, strata, len(kept))
    assert sum(drawn.values()) == len(kept)
    for k, own in bins.items():
        assert len(set(own) & set(kept)) == drawn[k]


def test_strata_of_each_class_after_the_worst_of_each_class_is_cut():
    # The variant of our notes: per class, cut the worst share by rank, cover the rest evenly.
    draw = np.random.default_rng(1)
    labels = np.repeat(np.arange(4), 50)
    scores = draw.uniform(size=200) + labels  # classes live in different ranges
    chosen = {"selector": "coverage", "hard": "low", "cut": 0.3, "strata": 5, "classes": "balanced"}
    kept = moso.select(scores, ratio=0.8, labels=labels, **chosen)
    for c in range(4):
        own = np.flatnonzero(labels == c)
        bins, drawn = algorithm_1(scores[own], "low", 0.3, 5, 10)
        for k, members in bins.items():
            assert len(set(own[members]) & set(kept)) == drawn[k]
        worst = own[np.argsort(scores[own])[:15]]
        assert not set(worst) & set(kept)


def test_the_cut_never_takes_what_the_budget_needs():
    scores = np.arange(10.0)
    kept = moso.select(scores, ratio=0.2, selector="coverage", hard="high", cut=0.5)
    assert kept.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_strata_by_rank_hold_equally_many():
    scores = np.exp(np.random.default_rng(0).normal(size=100) * 3)
    kept = moso.select(scores, ratio=0.5, selector="coverage", cut=0, strata=10, by="rank")
    rank = np.argsort(np.argsort(scores))
    assert np.bincount(rank[kept] // 10).tolist() == [5] * 10


def test_inside_a_stratum_all_samples_are_equally_likely():
    counts = np.zeros(20)
    for seed in range(2000):
        counts[moso.select(np.arange(20.0), ratio=0.5, selector="coverage", cut=0, strata=2, seed=seed)] += 1
    # Each is drawn with probability 1/2; negative correlation only lowers the sum of squares.
    assert ((counts - 1000) ** 2 / 500).sum() < 45


def test_strata_budgets_are_spent_to_the_sample():
    for sizes in ([1, 1, 50], [7, 7, 7], [0, 3, 0, 9], [5]):
        for budget in range(sum(sizes) + 1):
            budgets = strata_budgets(np.array(sizes), budget)
            assert budgets.sum() == budget
            assert (budgets <= sizes).all()
