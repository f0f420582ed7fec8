"""Recording callbacks of the training loop: trajectory, training dynamics, progress."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from moso.evidence import DynamicsRecorder, Recorder
from moso.progress import Progress
from moso.training.callback import Callback, TrainingRun
from moso.training.step_plan import Step


class ShowProgress(Callback):
    """Reports the progress of a training."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """Report the number of the update."""
        self.progress(run.label, step.number, run.end)


class RecordTrajectory(Callback):
    """Writes the sampled steps of a run for scoring."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """Write the update if it is a sampled step; an update that a gradient scaler skipped is not written."""
        if run.optimizer.moved:
            moves, moments = run.optimizer.moves(step.rate), run.optimizer.moments
            self.recorder.updated(run.model, moves, step.number, step.epoch, moments)


class RecordDynamics(Callback):
    """Writes training dynamics: statistics of the outputs for every sample and epoch."""

    def __init__(self, recorder: DynamicsRecorder) -> None:
        self.recorder = recorder

    @contextmanager
    def around(self, run: TrainingRun) -> Iterator[None]:
        """Capture the network's outputs, and mark the dynamics as complete at the end."""
        with self.recorder.watching(run.model):
            yield
        self.recorder.finish()

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """Write the statistics of the update's forward pass."""
        self.recorder.record(step.epoch, step.positions)

    def must_save(self, run: TrainingRun) -> bool:
        """Return whether an epoch just ended that the next one is compared with; only two epochs are kept on disk."""
        return self.recorder.compares_epochs and run.ends_epoch

    def state(self) -> dict[str, torch.Tensor]:
        """Flush the columns, which a checkpoint must not be ahead of, and return nothing: they have their own files."""
        self.recorder.flush()
        return {}
