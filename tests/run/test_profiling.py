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


def test_the_peak_is_what_the_work_held_beyond_what_was_held_before(monkeypatch, tmp_path):
    """With a system that is made up: 1,000 kB before, once 7,000 kB on the way; then work that needs nothing more."""
    status, reset = tmp_path / "status", tmp_path / "clear_refs"
    monkeypatch.setattr(module, "_STATUS", status)
    monkeypatch.setattr(module, "_RESET", reset)
    found = []
    status.write_text("VmPeak:\t 99999 kB\nVmHWM:\t 5000 kB\nVmRSS:\t 1000 kB\n")
    with measuring(lambda seconds, peak: found.append(peak)):
        assert reset.read_text() == "5"  # the peak is put back to what is held now
        status.write_text("VmPeak:\t 99999 kB\nVmHWM:\t 7000 kB\nVmRSS:\t 2000 kB\n")
    with measuring(lambda seconds, peak: found.append(peak)):
        status.write_text("VmHWM:\t 1900 kB\nVmRSS:\t 1900 kB\n")
    assert found == [6000 * 1024, 0]


@pytest.mark.skipif(module._reset_peak() is None, reason="this system does not tell the peak of memory")
def test_the_peak_is_that_of_the_work_and_not_of_what_came_before_it():
    # The system may take pages back from this process at any moment, so a single measurement may fall short.
    assert any(peak_of(200) > 150 * MIB for _ in range(10))
    assert any(peak_of(1) < 100 * MIB for _ in range(10))


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
