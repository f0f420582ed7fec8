"""Numeric columns beyond the memory limit: read from the disk, and nobody can tell."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moso.data import open_dataset
from moso.data.mapped import MappedReader
from moso.data.readers import MemoryReader
from refusals import refusal


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two shards of 8 x 8 bytes, and a cache of their own."""
    monkeypatch.setenv("MOSO_CACHE", str(tmp_path / "cache"))
    draw = np.random.default_rng(0)
    for number, rows in enumerate((70, 50)):
        pixels = draw.integers(0, 255, (rows, 64)).astype(np.uint8)
        column = pa.FixedSizeListArray.from_arrays(pa.array(pixels.ravel()), 64)
        table = pa.table({"pixels": column, "label": np.arange(rows) % 3})
        pq.write_table(table, tmp_path / f"train-{number}.parquet", row_group_size=32)
    return tmp_path


def opened(folder, memory_limit):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        data = open_dataset(f"parquet:{folder}", memory_limit=memory_limit)
    return data, [str(one.message) for one in said]


def test_samples_are_the_same_in_memory_and_on_the_disk(folder):
    memory, silence = opened(folder, 2**30)
    disk, said = opened(folder, 1000)
    assert isinstance(memory.train.reader, MemoryReader)
    assert isinstance(disk.train.reader, MappedReader)
    assert not silence
    assert "too large for memory" in said[0]
    for split in ("train", "test"):
        one, other = getattr(memory, split), getattr(disk, split)
        assert one.ids.equals(other.ids)
        np.testing.assert_array_equal(one.labels, other.labels)
        positions = np.array([5, 0, 3, 3])
        for left, right in zip(
            one.evaluation_view().batch(positions), other.evaluation_view().batch(positions), strict=True
        ):
            np.testing.assert_array_equal(left, right)
    assert disk.train.shape == (64,)


def test_the_copy_is_made_once_and_again_when_the_file_is_another(folder):
    first, said = opened(folder, 1000)
    again, silence = opened(folder, 1000)
    assert said
    assert not silence
    assert first.train.fingerprint() == again.train.fingerprint()
    table = pq.read_table(folder / "train-0.parquet")
    pq.write_table(table.slice(1), folder / "train-0.parquet")
    other, said = opened(folder, 1000)
    assert said
    assert other.train.fingerprint() != first.train.fingerprint()


def test_bytes_stay_bytes_on_the_disk(folder):
    opened(folder, 1000)
    [copy] = (folder / "cache").glob("*.npy")
    assert copy.stat().st_size == pytest.approx(120 * 64, abs=256)


def test_what_is_not_finite_or_of_another_length_is_refused(folder):
    broken = pa.table({"pixels": [[1.0] * 64, [float("nan")] * 64], "label": [0, 1]})
    pq.write_table(broken, folder / "train-0.parquet")
    with refusal("values-not-finite", 1):
        opened(folder, 100)
    pq.write_table(pa.table({"pixels": [[1.0] * 3] * 2, "label": [0, 1]}), folder / "train-0.parquet")
    with refusal("shape-mismatch", "train-1.parquet", "(64,)"):
        opened(folder, 10)
    assert not list((folder / "cache").glob("*"))
