"""Progress display: bars on a terminal, plain lines elsewhere, nothing with --quiet."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from moso.progress import Progress as ProgressCall
from moso.progress import silent

LINE_SECONDS = 10.0
# Pieces of work that took less time get no line of their own.
SHORT_SECONDS = 5.0


@contextmanager
def showing(quiet: bool) -> Iterator[ProgressCall]:
    """Yield a progress callback that suits standard error: bars on a terminal, else lines; silent if `quiet`."""
    if quiet:
        yield silent
    elif sys.stderr.isatty():
        with _bars() as bars:
            yield _Bars(bars)
    else:
        yield _Lines()


def _bars() -> Progress:
    # Without markup, because a label may contain a file name with brackets.
    label, share = TextColumn("{task.description}", markup=False), TextColumn("{task.percentage:>3.0f} %")
    times = TimeElapsedColumn(), TimeRemainingColumn()
    return Progress(label, BarColumn(), share, *times, console=Console(stderr=True), transient=True)


class _Bars:
    """One bar per piece of work in progress; finished bars are removed."""

    def __init__(self, bars: Progress) -> None:
        self.bars = bars
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, label: str, done: float, total: float) -> None:
        if label not in self.tasks:
            self.tasks[label] = self.bars.add_task(label, total=total)
        self.bars.update(self.tasks[label], completed=done)
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
