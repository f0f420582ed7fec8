"""Checkpoints: a killed training resumes from its last checkpoint, bit for bit."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from moso.evidence import read_state, write_state
from moso.training.callback import Callback, TrainingRun, overriding
from moso.training.step_plan import Step


class Checkpoints(Callback):
    """Writes a checkpoint every few seconds and resumes from the last one; it must be the last callback of the list."""

    def __init__(
        self,
        path: Path,
        seconds: float = 10.0,
        on_save: Callable[[float], None] = lambda seconds: None,
        on_epoch: Callable[[int, float, float], None] = lambda epoch, loss, learning_rate: None,
    ) -> None:
        """Keep the checkpoint in `path`.

        Args:
            path: File of the checkpoint.
            seconds: Time after which the next checkpoint is due, in seconds; a callback may force one earlier.
            on_save: Called at every checkpoint and at the end with the seconds of training since its last call.
            on_epoch: Called after every epoch with its number, counted from 1, its mean loss and its last learning
                rate.
        """
        self.path, self.seconds, self.on_save, self.on_epoch = path, seconds, on_save, on_epoch
        self._saved_at = 0.0
        self._demanding: list[Callback] = []

    @contextmanager
    def around(self, run: TrainingRun) -> Iterator[None]:
        """Resume from the checkpoint, if there is one."""
        if self.path.exists():
            run.load(*read_state(self.path), f"the saved position {self.path}")
        self._saved_at = time.monotonic()
        self._demanding = overriding(run.callbacks, "must_save")
        yield
        self._tell()

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """Write a checkpoint if one is due."""
        if run.ends_epoch:
            self.on_epoch(step.epoch + 1, run.history.loss[-1], step.rate)
        due = step.number < run.end and time.monotonic() - self._saved_at > self.seconds
        if due or any(callback.must_save(run) for callback in self._demanding):
            write_state(self.path, run.position(), run.note())
            self._tell()

    def _tell(self) -> None:
        now = time.monotonic()
        self.on_save(now - self._saved_at)
        self._saved_at = now
