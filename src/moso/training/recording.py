"""Callbacks of the training loop that record: the trajectory, the dynamics of samples, progress."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from moso.evidence import DynamicsRecorder, Recorder
from moso.progress import Progress
from moso.training.callback import Callback, TrainingRun
from moso.training.steps import Step


class ShowProgress(Callback):
    """Tells how far a training is."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """Tell the number of the update."""
        self.progress(run.label, step.number, run.end)


class RecordTrajectory(Callback):
    """Writes the sampled steps of a run for scoring."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """Write the update if it is one of the sampled steps; one that a gradient scaler skipped is none."""
        if run.optimizer.moved:
            trained = list(run.optimizer.parameters.values())
            self.recorder.updated(run.model, trained, step.rate, step.number, step.epoch)


class RecordDynamics(Callback):
    """Writes what the network says about every sample it meets, epoch by epoch."""

    def __init__(self, recorder: DynamicsRecorder) -> None:
        self.recorder = recorder

    @contextmanager
    def around(self, run: TrainingRun) -> Iterator[None]:
        """Watch the network's outputs, and say at the end that all epochs are recorded."""
        with self.recorder.watching(run.model):
            yield
        self.recorder.finish()

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """Write what the forward pass of the update gave."""
        self.recorder.record(step.epoch, step.positions)

    def must_save(self, run: TrainingRun) -> bool:
        """What compares epochs overwrites the one before the last: no resumed run may go back that far."""
        return self.recorder.compares_epochs and run.ends_epoch

    def state(self) -> dict[str, torch.Tensor]:
        """Nothing: what was recorded lies in files of its own, which a saved position must not be ahead of."""
        self.recorder.flush()
        return {}
