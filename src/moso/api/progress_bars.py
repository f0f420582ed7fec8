"""Progress of the library: bars in notebooks and on terminals, nothing elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from moso.progress import Progress as ProgressCall
from moso.progress import silent


@contextmanager
def shown_progress(asked: bool | ProgressCall | None) -> Iterator[ProgressCall]:
    """Yield a progress callback.

    Args:
        asked: True shows bars, False nothing, None bars in notebooks and on terminals; or the user's own callback.

    Example:
        >>> with shown_progress(False) as progress:
        ...     progress("scoring", 1, 2)
    """
    if asked is not None and not isinstance(asked, bool):
        yield asked
        return
    console = Console(stderr=True)
    if asked is False or (asked is None and not (console.is_jupyter or sys.stderr.isatty())):
        yield silent
        return
    label = TextColumn("{task.description}", markup=False)  # a label may hold brackets
    share, times = TextColumn("{task.percentage:>3.0f} %"), (TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(label, BarColumn(), share, *times, console=console, transient=True) as bars:
        yield _Bars(bars)


class _Bars:
    """One bar per piece of work in progress; finished bars are removed."""

    def __init__(self, bars: Progress) -> None:
        self.bars = bars
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, label: str, done: float, total: float) -> None:
        if label not in self.tasks:
            self.tasks[label] = self.bars.add_task(label, total=total)
        self.bars.update(self.tasks[label], completed=done, total=total)
        if done >= total:
            self.bars.remove_task(self.tasks.pop(label))
