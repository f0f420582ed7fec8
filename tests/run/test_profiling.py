"""Peaks of memory are those of the work, not of what came before it."""

import mmap

import pytest

from moso.run import profiling as module
from moso.run.profiling import measuring

MIB = 2**20


def peak_of(size: int) -> int | None:
    found = []
    # Pages from the system itself: an allocator may hand out memory that the process has held all along.
    with measuring(lambda seconds, peak: found.append(peak)), mmap.mmap(-1, size * MIB) as pages:
        for start in range(0, len(pages), mmap.PAGESIZE):
            pages[start] = 1
    return found[0]


@pytest.mark.skipif(module._reset_peak() is None, reason="this system does not tell the peak of memory")
def test_the_peak_is_that_of_the_work_alone():
    # The system may take pages back from this process at any moment, so one measurement in a few may fall short.
    large, small = (sorted(peak_of(size) for _ in range(5)) for size in (200, 40))
    assert 180 * MIB < large[-1] < 260 * MIB
    assert small[-1] > 20 * MIB
    assert small[2] < 100 * MIB


def test_where_memory_cannot_be_measured_time_is(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_RESET", tmp_path / "nothing" / "here")
    assert peak_of(1) is None


def test_work_that_fails_is_not_noted():
    found = []

    def fail() -> None:
        with measuring(lambda *result: found.append(result)):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert found == []
