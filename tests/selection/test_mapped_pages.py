"""Pages of memory maps are given back while rows are read, and what is read stays the same."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from moso.selection import Features
from moso.selection.mapped_pages import MappedPages

linux = pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="resident pages of a file are Linux's to tell")


def mapped(path, mode="r"):
    np.save(path, np.random.default_rng(0).normal(size=(20_000, 256)).astype(np.float32))
    return np.load(path, mmap_mode=mode)


def resident(path):
    """Kilobytes of a file that are mapped and resident in this process."""
    inside, total = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ")[0]:
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


@linux
def test_pages_are_given_back_beyond_the_limit_and_the_numbers_stay(tmp_path):
    rows, whole = mapped(tmp_path / "rows.npy"), np.load(tmp_path / "rows.npy")
    pages = MappedPages(rows, 0)
    features = Features(rows, pages=pages)
    for start, some in features.chunks(500):
        assert (some == whole[start : start + 500]).all()
        assert resident(tmp_path / "rows.npy") > 0
        pages.give_back()
        assert resident(tmp_path / "rows.npy") == 0
        assert (some == whole[start : start + 500]).all()
    order = np.random.default_rng(1).permutation(20_000)
    part = features.subset(order)
    for start in range(0, 20_000, 1000):
        some = np.arange(start, start + 1000)
        assert (part.take(some) == whole[order[some]]).all()


@linux
def test_below_the_limit_pages_stay(tmp_path):
    rows = mapped(tmp_path / "rows.npy")
    features = Features(rows)
    features.mean()
    features.take(np.arange(3))
    assert resident(tmp_path / "rows.npy") > rows.nbytes / 1024 / 2


def test_arrays_in_memory_and_maps_that_are_written_to_are_left_alone(tmp_path):
    assert not MappedPages(np.zeros((3, 2))).is_mapped
    copied = mapped(tmp_path / "rows.npy", "c")
    assert not MappedPages(copied).is_mapped
    copied[:] = 1
    for _, some in Features(copied, pages=MappedPages(copied, 0)).chunks(100):
        assert (some == 1).all()
    assert not MappedPages(mapped(tmp_path / "others.npy", "r+")).is_mapped


def test_views_of_a_map_are_recognised(tmp_path):
    if not hasattr(mmap, "MADV_DONTNEED"):
        pytest.skip("this system takes no advice on maps")
    rows = mapped(tmp_path / "rows.npy")
    assert MappedPages(rows).is_mapped
    assert MappedPages(np.asarray(rows)[10:, ::2]).is_mapped
