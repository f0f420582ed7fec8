"""Saved positions: training goes on after a kill from where it was last saved, to the same bits."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from moso.evidence import read_state, write_state
from moso.training.callback import Callback, TrainingRun
from moso.training.steps import Step


class Checkpoints(Callback):
    """Saves a run's position every few seconds, and goes on from the last one. It belongs at the end of the list."""

    def __init__(
        self,
        path: Path,
        seconds: float = 10.0,
        on_save: Callable[[float], None] = lambda seconds: None,
        on_epoch: Callable[[int, float, float], None] = lambda epoch, loss, learning_rate: None,
    ) -> None:
        """Save to `path`.

        Args:
            path: Where the position is kept.
            seconds: Time that may pass between two saves.
            on_save: Told the seconds of training since it was last told, at every save and at the end.
            on_epoch: Told the number of every epoch, counted from 1, its mean loss and its last rate.
        """
        self.path, self.seconds, self.on_save, self.on_epoch = path, seconds, on_save, on_epoch
        self._saved_at = 0.0

    @contextmanager
    def around(self, run: TrainingRun) -> Iterator[None]:
        """Go on from the saved position, if there is one."""
        if self.path.exists():
            run.load(*read_state(self.path), f"the saved position {self.path}")
        self._saved_at = time.monotonic()
        yield
        self._tell()

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """Save if it is time to."""
        if run.ends_epoch:
            self.on_epoch(step.epoch + 1, run.history.loss[-1], step.rate)
        due = step.number < run.end and time.monotonic() - self._saved_at > self.seconds
        if due or any(callback.must_save(run) for callback in run.callbacks):
            write_state(self.path, run.position(), run.note())
            self._tell()

    def _tell(self) -> None:
        now = time.monotonic()
        self.on_save(now - self._saved_at)
        self._saved_at = now
