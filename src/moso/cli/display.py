"""Progress display: bars on a terminal, plain lines elsewhere, nothing with --quiet.

A terminal has one bar for the whole command, in pieces of work, and one for every piece in progress, in its own unit.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from moso.progress import Progress as ProgressCall
from moso.progress import silent

LINE_SECONDS = 10.0
# Pieces of work that took less time get no line of their own.
SHORT_SECONDS = 5.0
# Labels of whole stages start with this word; other labels are pieces.
_STAGE = "all "
# Units of pieces by the start of their label.
_UNITS = {
    "surrogate": "steps",
    "reference": "steps",
    "retraining": "steps",
    "auto: trying": "steps",
    "adjoint": "steps",
    "scor": "time steps",
    "exporting": "samples",
    "reading": "samples",
    "train split": "samples",
    "test split": "samples",
    "exact": "updates",
}


@contextmanager
def showing(quiet: bool, planned: Mapping[str, int] | None = None) -> Iterator[ProgressCall]:
    """Yield a progress callback that suits standard error: bars on a terminal, else lines; silent if `quiet`.

    Args:
        quiet: Show nothing.
        planned: Number of pieces by the label of their stage, as far as it is known beforehand.
    """
    if quiet:
        yield silent
    elif sys.stderr.isatty():
        with _bars() as bars:
            yield _Bars(bars, planned or {})
    else:
        yield _Lines()


def unit_of(label: str) -> str:
    """Return the unit in which a piece of work counts.

    Example:
        >>> unit_of("surrogate 1/5, seed 0"), unit_of("exporting"), unit_of("something else")
        ('steps', 'samples', '')
    """
    return next((unit for start, unit in _UNITS.items() if label.startswith(start)), "")


def _bars() -> Progress:
    # Without markup, because a label may contain a file name with brackets.
    label, count = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[count]}", markup=False)
    times = TimeElapsedColumn(), TimeRemainingColumn()
    return Progress(label, BarColumn(), count, *times, console=Console(stderr=True), transient=True)


class _Bars:
    """One bar for the whole command, and one per piece of work in progress; finished pieces are removed."""

    def __init__(self, bars: Progress, planned: Mapping[str, int]) -> None:
        self.bars = bars
        self.tasks: dict[str, TaskID] = {}
        self.planned, self.finished = dict(planned), dict.fromkeys(planned, 0.0)
        self.whole: TaskID | None = None

    def __call__(self, label: str, done: float, total: float) -> None:
        if label.startswith(_STAGE):
            self.planned[label], self.finished[label] = int(total), done
        else:
            self._piece(label, done, total)
        if self.planned:
            self._all()

    def _all(self) -> None:
        done, total = sum(self.finished.values()), sum(self.planned.values())
        if self.whole is None:
            self.whole = self.bars.add_task("whole command", total=total, count="")
        self.bars.update(self.whole, completed=done, total=total, count=f"{done:.0f} of {total} pieces")

    def _piece(self, label: str, done: float, total: float) -> None:
        if label not in self.tasks:
            self.tasks[label] = self.bars.add_task(label, total=total, count="")
        self.bars.update(self.tasks[label], completed=done, count=f"{done:,.0f} of {total:,.0f} {unit_of(label)}")
        if done >= total:
            self.bars.remove_task(self.tasks.pop(label))


class _Lines:
    """One line when a piece of work that took a while ends, and one every few seconds while work goes on."""

    def __init__(self) -> None:
        self.started: dict[str, float] = {}
        self.said = time.monotonic()

    def __call__(self, label: str, done: float, total: float) -> None:
        now = time.monotonic()
        start = self.started.setdefault(label, now)
        if done >= total:
            if now - start > SHORT_SECONDS:
                print(f"{label}: done in {now - start:.1f} s", file=sys.stderr, flush=True)
                self.said = now
            self.started.pop(label)
        elif now - self.said > LINE_SECONDS and now - start > SHORT_SECONDS:
            left = (now - start) / done * (total - done) if done else 0.0
            print(f"{label}: {done / total:.0%}, {left:.0f} s left", file=sys.stderr, flush=True)
            self.said = now
