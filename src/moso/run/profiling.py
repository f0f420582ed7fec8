"""Cost of a block of work: seconds, and the peak of resident memory beyond what the process held before.

Linux tracks the peak resident set of a process and lets the process reset the peak, which costs nothing during the
work. On other systems memory is not measured.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from moso.results.directory import RunDirectory

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


@contextmanager
def measuring(note: Callable[[float, int | None], None]) -> Iterator[None]:
    """Call `note(seconds, peak_bytes)` after the block succeeds; the peak is None where it cannot be measured.

    Do not nest: an inner measurement resets the peak of the outer one.

    Example:
        >>> with measuring(lambda seconds, peak: print(seconds >= 0, peak is None or peak >= 0)):
        ...     pass
        True True
    """
    before = _reset_peak()
    started = time.monotonic()
    yield
    seconds = time.monotonic() - started
    note(seconds, None if before is None else max(0, _resident("VmHWM") - before))


@contextmanager
def record_cost(directory: RunDirectory, what: str, piece: str) -> Iterator[None]:
    """Measure a block of work and record an event `measured`; the last event of a piece counts."""

    def note(seconds: float, peak: int | None) -> None:
        directory.event("measured", what=what, piece=piece, seconds=round(seconds, 4), peak=peak)

    with measuring(note):
        yield


def resident_memory() -> int | None:
    """Return the bytes of memory that this process holds; None where the system does not say.

    Example:
        >>> found = resident_memory()
        >>> found is None or found > 1_000_000
        True
    """
    try:
        return _resident("VmRSS")
    except (OSError, ValueError):
        return None


def _reset_peak() -> int | None:
    try:
        _RESET.write_text("5")
        return _resident("VmRSS")
    except (OSError, ValueError):
        return None  # not Linux, or a Linux that forbids resetting the peak


def _resident(name: str) -> int:
    for line in _STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"{_STATUS} has no {name}")
