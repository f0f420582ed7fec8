"""`opt` against exhaustive search, random sets and the simple greedy rule; both forms keep what they promise."""

from itertools import combinations

import numpy as np
import pytest

import moso
from moso.selection import Features, Problem, Selector
from moso.selection.blocks import blocks
from moso.selection.selectors.opt_selection import (
    OptSettings,
    distance_moved,
    opt,
    select_fixed_bound,
    select_fixed_size,
)
from refusals import refusal

SELECTOR = Selector("opt", "removes what moves the network least", opt, frozenset({"influences"}), OptSettings)


def influences(count, dimension, seed, total=0.0):
    """Rows of very different lengths that add up to nothing, or to `total` in every direction."""
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(count, dimension)) * draw.exponential(size=(count, 1))
    return (rows - rows.mean(axis=0) + total / count).astype(np.float32)


def length(rows, removed):
    return np.linalg.norm(rows[list(removed)].astype(np.float64).sum(axis=0))


def removed_from(rows, kept):
    return np.setdiff1d(np.arange(len(rows)), kept)


def greedy(rows, count):
    """One sample after the other, each the one with which the sum is shortest."""
    total, gone = np.zeros(rows.shape[1]), []
    for _ in range(count):
        lengths = np.linalg.norm(total + rows, axis=1)
        lengths[gone] = np.inf
        gone.append(int(np.argmin(lengths)))
        total += rows[gone[-1]]
    return gone


@pytest.mark.parametrize(
    ("count", "dimension", "removed", "mean_ratio", "mean_ratio_kicked"),
    [(12, 2, 6, 3.0, 1.3), (12, 3, 4, 2.5, 1.3), (14, 4, 7, 2.0, 1.2), (14, 8, 7, 1.2, 1.05), (14, 40, 7, 1.05, 1.01)],
)
def test_it_comes_near_the_shortest_sum_there_is(count, dimension, removed, mean_ratio, mean_ratio_kicked):
    ratios, kicked, medians = [], [], []
    for seed in range(12):
        rows = influences(count, dimension, seed)
        every = [length(rows, gone) for gone in combinations(range(count), removed)]
        for kicks, found in ((0, ratios), (24, kicked)):
            kept = select_fixed_size(rows, count - removed, seed, kicks=kicks)
            assert len(kept) == count - removed
            found.append(length(rows, removed_from(rows, kept)) / min(every))
        medians.append(np.median(every) / min(every))
    assert np.mean(ratios) < mean_ratio
    assert np.mean(kicked) < mean_ratio_kicked
    assert np.mean(kicked) <= np.mean(ratios) < np.mean(medians)


@pytest.mark.parametrize(("dimension", "total"), [(8, 0.0), (64, 0.0), (64, 20.0), (300, 0.0)])
def test_it_beats_random_sets_least_influences_and_greedy(dimension, total):
    rows = influences(600, dimension, 0, total)
    draw = np.random.default_rng(1)
    for removed in (120, 300, 480):
        found = distance_moved(rows, select_fixed_size(rows, 600 - removed))
        others = [length(rows, draw.permutation(600)[:removed]) for _ in range(20)]
        assert found < min(others)
        assert found < length(rows, greedy(rows, removed))
        assert found < length(rows, np.argsort(np.linalg.norm(rows, axis=1))[:removed])


def test_no_exchange_of_two_samples_is_left_that_helps():
    rows = influences(40, 6, 3).astype(np.float64)
    gone = removed_from(rows, select_fixed_size(rows, 15, passes=1000))
    shortest = length(rows, gone)
    for back in gone:
        for out in removed_from(rows, gone):
            assert length(rows, [*set(gone) - {back}, out]) >= shortest * (1 - 1e-6)


def test_a_sum_that_is_short_in_a_projection_is_longer_in_truth_but_still_beats_random_ones():
    rows = influences(400, 200, 0) * np.linspace(0.1, 1, 200, dtype=np.float32)
    draw = np.random.default_rng(0)
    signs = draw.choice([-1, 1], size=(200, 60)).astype(np.float32) / 60**0.5
    random = np.mean([length(rows, draw.permutation(400)[:200]) for _ in range(20)])
    through = select_fixed_size(rows @ signs, 200)
    assert distance_moved(rows @ signs, through) < distance_moved(rows, through) < 0.8 * random
    assert distance_moved(rows, select_fixed_size(rows, 200)) < distance_moved(rows, through)


def test_what_is_removed_has_little_influence_each():
    rows = influences(600, 32, 0)
    own = np.linalg.norm(rows, axis=1)
    kept = select_fixed_size(rows, 300)
    assert own[kept].mean() > 1.5 * own[removed_from(rows, kept)].mean()


@pytest.mark.parametrize("seed", range(4))
def test_the_fixed_bound_is_kept_and_nearly_used_up(seed):
    rows = influences(14, 3, seed, total=1.0)
    for bound in (0.0, 0.2, 0.5, 1.5):
        kept = select_fixed_bound(rows, bound, kicks=24)
        assert distance_moved(rows, kept) <= bound
        most = max(
            (
                size
                for size in range(1, 8)
                if min(length(rows, gone) for gone in combinations(range(14), size)) <= bound
            ),
            default=0,
        )
        assert most - 1 <= 14 - len(kept) <= most


def test_a_larger_bound_lets_more_go():
    rows = influences(200, 120, 0)
    sizes = [200 - len(select_fixed_bound(rows, bound)) for bound in (0.0, 1.0, 5.0, 20.0, 1e6)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 0
    assert sizes[-1] == 100
    assert len(select_fixed_bound(rows, 1e6, most=0.8)) == 40


def test_later_blocks_make_up_for_earlier_ones():
    rows = influences(900, 48, 0)
    kept = select_fixed_size(rows, 400, block=150)
    assert len(kept) == 400
    whole = Problem(np.zeros(900), 400, rows={"influences": Features(rows)})
    own = []
    for where, part in blocks(whole, 150, "opt"):
        alone = select_fixed_size(rows[where], part.budget)
        own.append(where[removed_from(where, alone)])
    assert distance_moved(rows, kept) < 0.7 * length(rows, np.concatenate(own))
    draw = np.random.default_rng(0)
    assert distance_moved(rows, kept) < 0.3 * min(length(rows, draw.permutation(900)[:500]) for _ in range(20))


def test_it_is_a_selector_like_the_others():
    rows = influences(80, 6, 0)
    kept = moso.select(None, ratio=0.75, selector=SELECTOR, influences=rows)
    assert kept.tolist() == select_fixed_size(rows, 20).tolist()
    order = np.random.default_rng(0).permutation(80)
    shuffled = moso.select(None, ratio=0.75, selector=SELECTOR, influences=rows[order], ids=order, block=30, kicks=2)
    assert (
        sorted(order[shuffled])
        == moso.select(
            None, ratio=0.75, selector=SELECTOR, influences=rows, ids=np.arange(80), block=30, kicks=2
        ).tolist()
    )
    labels = np.arange(80) % 4
    fair = moso.select(None, ratio=0.9, selector=SELECTOR, influences=rows, labels=labels, min_per_class=2)
    assert np.bincount(labels[fair]).tolist() == [2] * 4


def test_it_is_the_same_every_time_and_whatever_the_memory(tmp_path):
    rows = influences(300, 16, 0)
    np.save(tmp_path / "influences.npy", rows)
    mapped = np.load(tmp_path / "influences.npy", mmap_mode="r")
    once = select_fixed_size(rows, 100, block=64, kicks=3)
    assert once.tolist() == select_fixed_size(mapped, 100, block=64, kicks=3).tolist()
    assert once.tolist() != select_fixed_size(rows, 100, 1, block=64, kicks=3).tolist()


def test_twins_and_samples_without_influence():
    assert len(select_fixed_size(np.zeros((7, 3)), 3)) == 3
    assert select_fixed_size(np.ones((5, 2)), 5).tolist() == [0, 1, 2, 3, 4]
    kept = select_fixed_size([[0.0, 0.0], [5.0, 0.0], [0.0, 0.0], [0.0, 7.0]], 2)
    assert kept.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: select_fixed_size(np.zeros((4, 2)), 0), ("budget-impossible", 0, 4)),
        (lambda: select_fixed_size(np.zeros((4, 2)), 5), ("budget-impossible", 5, 4)),
        (lambda: select_fixed_size(np.zeros(4), 2), ("shape-mismatch", "(4,)")),
        (lambda: select_fixed_size([[np.nan], [0.0]], 1), ("values-not-finite", 0)),
        (lambda: select_fixed_bound(np.zeros((4, 2)), -1), ("setting-invalid", -1)),
        (lambda: select_fixed_bound(np.zeros((4, 2)), np.nan), ("setting-invalid", "nan")),
        (lambda: select_fixed_bound(np.zeros((4, 2)), 1, most=1), ("setting-invalid", "most", 1)),
        (lambda: moso.select(np.zeros(4), ratio=0.5, selector=SELECTOR), ("evidence-missing", "opt", "influences")),
        (
            lambda: moso.select(np.zeros(4), ratio=0.5, selector=SELECTOR, influences=np.zeros((3, 2))),
            ("length-mismatch", 4, 3, "influences"),
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(call, told):
    with refusal(*told):
        call()
