"""What a stretch of work takes: seconds, and the most memory it held beyond what the process held before.

Linux keeps a process's largest resident set and lets the process itself put it back to the present one; that costs
nothing while the work goes on. Elsewhere memory is not measured.
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
    """Call `note(seconds, peak_bytes)` after the work, if it ends well; without a peak where it cannot be known.

    Work that nests inside other measured work puts the outer peak back: measure the pieces, not the whole.

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
    """Measure a stretch of work and note it among the run's events as `measured`; the last note of a piece counts."""

    def note(seconds: float, peak: int | None) -> None:
        directory.event("measured", what=what, piece=piece, seconds=round(seconds, 4), peak=peak)

    with measuring(note):
        yield


def _reset_peak() -> int | None:
    try:
        _RESET.write_text("5")
        return _resident("VmRSS")
    except (OSError, ValueError):
        return None  # no Linux, or one that does not allow it


def _resident(name: str) -> int:
    for line in _STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"{_STATUS} has no {name}")
