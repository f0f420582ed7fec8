import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moso.data.partitions import hold_out, partition
from moso.data.samples import id_keys
from refusals import refusal

labels_of_many = st.lists(st.integers(0, 5), min_size=4, max_size=200).map(
    lambda values: np.array(values, dtype=np.int64)
)


def parts_of(labels: np.ndarray, count: int, seed: int = 0, keys: np.ndarray | None = None) -> list[np.ndarray]:
    keys = id_keys(pa.array([f"class/{i}.png" for i in range(len(labels))])) if keys is None else keys
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return partition(keys, labels, count, seed)


@given(labels_of_many, st.integers(1, 8), st.integers(0, 3))
def test_partitions_are_disjoint_cover_everything_and_are_equal_to_within_one(labels, count, seed):
    count = min(count, len(labels) // 2)
    parts = parts_of(labels, count, seed)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    assert np.ptp([len(part) for part in parts]) <= 1
    by_class = np.array([np.bincount(labels[part], minlength=6) for part in parts])
    assert np.ptp(by_class, axis=0).max() <= 1
    assert all((np.diff(part) > 0).all() for part in parts)


@given(labels_of_many, st.integers(2, 5), st.randoms(use_true_random=False))
def test_partitions_do_not_depend_on_the_order_of_the_data(labels, count, random):
    count = min(count, len(labels) // 2)
    keys = id_keys(pa.array([f"class/{i}.png" for i in range(len(labels))]))
    order = np.array(random.sample(range(len(labels)), len(labels)))
    for plain, moved in zip(parts_of(labels, count), parts_of(labels[order], count, 0, keys[order]), strict=True):
        assert set(plain.tolist()) == set(order[moved].tolist())


def test_each_partition_of_class_sorted_data_sees_every_class():
    labels = np.repeat(np.arange(10), 50)
    for part in parts_of(labels, 5):
        assert np.bincount(labels[part]).tolist() == [10] * 10


def test_seeds_give_other_partitions():
    labels = np.repeat(np.arange(2), 50)
    assert not np.array_equal(parts_of(labels, 2, seed=0)[0], parts_of(labels, 2, seed=1)[0])


def test_one_partition_is_all_of_it_in_order():
    assert np.array_equal(parts_of(np.array([1, 0, 1]), 1)[0], np.arange(3))


def test_rare_classes_are_spread_with_a_notice():
    labels = np.array([0] * 20 + [1] * 3)
    with pytest.warns(UserWarning, match="1 classes have fewer samples than there are partitions"):
        parts = partition(np.arange(23, dtype=np.uint64), labels, 5, seed=0)
    assert max(np.bincount(labels[part], minlength=2)[1] for part in parts) == 1


@pytest.mark.parametrize("count", [0, -1, 6])
def test_too_many_partitions_are_refused(count: int):
    with refusal("too-few-samples", 1, 5):
        parts_of(np.array([0, 1] * 5), count)


@given(labels_of_many, st.floats(0.01, 0.99), st.randoms(use_true_random=False))
def test_holding_out_is_stratified_by_id_and_leaves_something_of_every_class(labels, share, random):
    keys = id_keys(pa.array(np.arange(len(labels))))
    kept, held = hold_out(keys, labels, share)
    assert np.array_equal(np.sort(np.concatenate([kept, held])), np.arange(len(labels)))
    sizes = np.bincount(labels, minlength=6)
    assert np.array_equal(np.bincount(labels[kept], minlength=6) > 0, sizes > 0)
    assert np.abs(np.bincount(labels[held], minlength=6) - sizes * share).max() <= 1
    order = np.array(random.sample(range(len(labels)), len(labels)))
    assert set(order[hold_out(keys[order], labels[order], share)[1]].tolist()) == set(held.tolist())
