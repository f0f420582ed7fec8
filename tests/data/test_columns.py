"""Columns in files are the columns in memory: same numbers, same order, nothing left behind."""

import numpy as np
import pytest

from moso import columns, randomness
from moso.columns import column, counted, empty_column, grouped, taken, where
from moso.data.partitions import hold_out, partition
from moso.randomness import hash_order, hashes


@pytest.fixture
def large(monkeypatch, tmp_path):
    """As if everything were too large for memory."""
    monkeypatch.setenv("MOSO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(columns, "LIMIT_BYTES", 0)
    monkeypatch.setattr(columns, "BLOCK", 7)
    monkeypatch.setattr(randomness, "SLICE", 16)
    return tmp_path / "cache"


def test_a_large_column_is_a_file_without_a_name(large):
    found = empty_column((2, 5), np.float64)
    found[:] = np.arange(10).reshape(2, 5)
    assert isinstance(found.base, np.memmap)
    assert found.sum() == 45
    assert list(large.iterdir()) == []


def test_a_small_one_is_in_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("MOSO_CACHE", str(tmp_path / "cache"))
    values = np.arange(5)
    assert column(values) is values
    assert not (tmp_path / "cache").exists()


def test_where_a_file_in_use_keeps_its_name_columns_stay_in_memory(large, monkeypatch):
    monkeypatch.setattr(columns, "_PAGED", False)  # Windows
    values = np.arange(5)
    assert column(values) is values
    assert counted(20).tolist() == list(range(20))
    assert not large.exists()
    growing = columns.Growing(2)
    for part in (np.ones((2, 3)), np.zeros((2, 30))):
        growing.add(part)
    found = growing.done()
    assert found.base is None or not isinstance(found.base, np.memmap)
    assert found.sum() == 6
    assert list(large.iterdir()) == []


@pytest.mark.parametrize("height", [1, 3])
def test_a_column_that_grows_ends_with_all_that_came(large, height):
    parts = [np.random.default_rng(n).normal(size=(height, n)) for n in (3, 0, 11, 1)]
    growing = columns.Growing(height)
    for part in parts:
        growing.add(part)
    assert (growing.done() == np.concatenate(parts, axis=1)).all()
    assert columns.Growing(height).done().shape == (height, 0)
    assert list(large.iterdir()) == []


def test_blocks_change_no_number(large):
    draw = np.random.default_rng(0)
    values, positions = draw.normal(size=50), draw.permutation(50)
    assert (column(values) == values).all()
    assert (counted(50) == np.arange(50)).all()
    assert (taken(values, positions) == values[positions]).all()
    assert (where(values > 0) == np.flatnonzero(values > 0)).all()
    labels = draw.integers(0, 4, 50)
    assert (grouped(positions, labels) == positions[np.argsort(labels[positions], kind="stable")]).all()


@pytest.mark.parametrize("count", [0, 1, 16, 17, 500])
def test_hashes_are_ordered_slice_by_slice_as_all_at_once(large, count):
    keys = np.random.default_rng(count).integers(0, 2**63, count).astype(np.uint64)
    keys[count // 2 :] = keys[: count - count // 2]  # ties stay in the order they come
    whole = np.argsort(hashes(keys, 3, "order"), kind="stable")
    assert (hash_order(keys, 3, "order") == whole).all()


def test_partitions_and_held_out_samples_are_those_of_a_sort(large):
    """Against the definition: within each class by hash, dealt in turn, the next class going on."""
    draw = np.random.default_rng(1)
    keys, labels = draw.integers(0, 2**63, 101).astype(np.uint64), draw.integers(0, 5, 101)
    order = np.lexsort((hashes(keys, 0, "partition"), labels))
    for part, positions in enumerate(partition(keys, labels, 3, seed=0)):
        assert (positions == np.sort(order[part::3])).all()
    kept, held = hold_out(keys, labels, 0.2)
    assert (np.sort(np.concatenate([kept, held])) == np.arange(101)).all()
    for own in range(5):
        inside = np.flatnonzero(labels == own)
        first = inside[np.argsort(hashes(keys[inside], "hold-out"))][: round(0.2 * len(inside))]
        assert set(first) == set(held[labels[held] == own])


def test_a_run_with_columns_in_files_has_the_bytes_of_one_in_memory(large, small_run, monkeypatch):
    from whole_runs import carried_out

    filed = carried_out(small_run("filed", label_noise=0.1)).directory.root
    monkeypatch.undo()
    plain = carried_out(small_run("plain", label_noise=0.1)).directory.root
    for name in ("scores.parquet", "evaluation.parquet"):
        assert (filed / name).read_bytes() == (plain / name).read_bytes()
