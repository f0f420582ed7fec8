"""RS2's subsets: fresh, of the right size, without replacement over epochs, and a function of (seed, epoch) alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moso.data.views import as_view
from moso.evaluation.baselines import FreshSubsets
from moso.training.loop import TrainingData


def fresh(count: int, size: int) -> FreshSubsets:
    view = as_view((np.zeros((count, 1), dtype=np.float32), [0] * count))
    return FreshSubsets(view, np.arange(count), np.arange(count, dtype=np.uint64), size=size)


@settings(deadline=None, max_examples=50)
@given(count=st.integers(1, 25), share=st.floats(0.01, 1.0), seed=st.integers(0, 3))
def test_samples_come_equally_often_and_never_twice_in_an_epoch(count, share, seed):
    size = max(1, round(share * count))
    data = fresh(count, size)
    seen = np.zeros(count, dtype=int)
    for epoch in range(12):
        subset = data.subset(epoch, seed)
        assert len(subset) == len(set(subset.tolist())) == size
        seen[subset] += 1
        assert seen.max() - seen.min() <= 1


@settings(deadline=None, max_examples=50)
@given(st.permutations(range(10)))
def test_an_epoch_does_not_depend_on_what_was_asked_before(epochs):
    data = fresh(13, 6)
    found = {epoch: data.subset(epoch, seed=1).tolist() for epoch in epochs}
    assert found == {epoch: fresh(13, 6).subset(epoch, seed=1).tolist() for epoch in range(10)}


def test_after_whole_passes_all_have_come_equally_often():
    data = fresh(12, 4)
    assert np.bincount(np.concatenate([data.subset(epoch, 0) for epoch in range(6)])).tolist() == [2] * 12


def test_seeds_and_epochs_draw_other_subsets():
    data = fresh(1000, 500)
    first, second, other = data.subset(0, 0), data.subset(1, 0), data.subset(0, 1)
    assert not set(first.tolist()) & set(second.tolist())
    assert 0.4 < len(set(first.tolist()) & set(other.tolist())) / 500 < 0.6


@pytest.mark.parametrize(("size", "batch"), [(10, 4), (3, 4), (25, 5)])
def test_epochs_are_as_long_as_those_of_a_fixed_subset(size, batch):
    data = fresh(25, size)
    pruned = TrainingData(data.view, np.arange(size), data.keys)
    assert data.steps_per_epoch(batch) == pruned.steps_per_epoch(batch)
    lengths = [len(part) for part in data.epoch_batches(batch, 3, 0)]
    assert lengths == [len(part) for part in pruned.epoch_batches(batch, 3, 0)]
