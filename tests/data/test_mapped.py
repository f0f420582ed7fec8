"""Laws of memory-mapped inputs: the same numbers as in memory, whatever the order, and whatever was asked for ahead."""

import numpy as np
import pytest
import torch

from moso.data import mapped
from moso.data.mapped import MappedReader, expecting, ranges_of
from moso.data.readers import MemoryReader
from moso.data.views import Normalisation, StoredView, load

ROWS, WIDTH = 300, 40


@pytest.fixture(params=[np.float16, np.float32, np.uint8])
def both(request, tmp_path):
    """The same numbers in memory and in a file, with some that float16 has only as subnormal numbers."""
    draw = np.random.default_rng(0)
    if request.param == np.uint8:
        numbers = draw.integers(0, 255, (ROWS, WIDTH)).astype(np.uint8)
    else:
        numbers = (draw.standard_normal((ROWS, WIDTH)) * 10.0 ** draw.integers(-7, 4, (ROWS, 1))).astype(request.param)
    np.save(tmp_path / "x.npy", numbers)
    return MemoryReader(numbers.astype(np.float32)), MappedReader(np.load(tmp_path / "x.npy", mmap_mode="r"))


def view(reader) -> StoredView:
    keys = np.arange(len(reader), dtype=np.uint64)
    return StoredView(reader, np.arange(len(reader)) % 3, keys, Normalisation.measure(reader))


@pytest.mark.parametrize("positions", [[5, 0, 3, 3], [0], [299, 1], list(range(299, -1, -1))])
def test_rows_in_any_order_are_those_in_memory(both, positions):
    memory, disk = both
    chosen = np.array(positions)
    found = disk.read(chosen)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, memory.read(chosen))
    np.testing.assert_array_equal(disk.take(chosen).read(np.array([0])), memory.read(chosen[:1]))


def test_a_normalised_batch_has_the_bits_of_numpys_arithmetic(both):
    memory, disk = both
    one, other = view(memory), view(disk)
    chosen = np.array([7, 7, 200, 1])
    mean, std = (np.array(part, dtype=np.float32) for part in (one.normalisation.mean, one.normalisation.std))
    for own in (one, other, one):  # a second time, because the tensors of a normalisation are made once
        inputs, _ = own.batch(chosen)
        np.testing.assert_array_equal(inputs.numpy(), (memory.inputs[chosen] - mean) / std)


def test_batches_that_were_asked_for_ahead_are_the_same(both, monkeypatch):
    memory, disk = both
    draw = np.random.default_rng(1)
    plan = [draw.integers(0, ROWS, size) for size in (64, 1, 30, 30, 64, 2, 9, 40)]
    asked: list[np.ndarray] = []
    ask, waits = MappedReader.expect, iter(range(0, 10**6, 1000))
    monkeypatch.setattr(MappedReader, "expect", lambda self, rows: asked.append(rows) or ask(self, rows))
    monkeypatch.setattr(mapped, "_waits", lambda: next(waits))
    for (inputs, answers), (expected, labels) in zip(load(view(disk), plan), load(view(memory), plan), strict=True):
        assert torch.equal(inputs, expected)
        assert torch.equal(answers, labels)
    assert [len(one) for one in asked] == [len(one) for one in plan[1:]]  # each later batch once, in order


def test_a_file_in_memory_is_left_alone(both, monkeypatch):
    _, disk = both
    monkeypatch.setattr(mapped, "_waits", lambda: 3)
    monkeypatch.setattr(MappedReader, "expect", lambda self, rows: pytest.fail("nothing waited for the disk"))
    assert len(list(expecting(disk, [np.arange(4)] * 9))) == 9


def test_every_row_lies_in_a_range_that_is_asked_for(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3000, 500), dtype=np.float32))
    reader = MappedReader(np.load(tmp_path / "x.npy", mmap_mode="r"))
    rows = np.array([2999, 0, 1, 1000, 1001, 1500])
    reader.expect(rows)  # the system refuses ranges outside of the file, or not aligned
    ranges = ranges_of(reader.inputs, rows)
    for row in rows.tolist():
        begin, end = 128 + row * 2000, 128 + (row + 1) * 2000  # behind the header of an npy file
        assert any(low <= begin and end <= high for low, high in ranges)
    assert len(ranges) == 4  # rows that follow each other are one range
    assert ranges[-1][1] == (tmp_path / "x.npy").stat().st_size


@pytest.mark.parametrize("inputs", [np.zeros((4, 3), np.float32), np.asfortranarray(np.zeros((4, 3), np.float32))])
def test_what_is_not_a_file_takes_no_advice(inputs):
    MappedReader(inputs).expect(np.array([3, 0]))
    MappedReader(inputs).expect(np.array([], dtype=np.int64))
