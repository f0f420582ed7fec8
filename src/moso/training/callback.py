"""A training run in progress, and callbacks on it: recorders, in-run scores, checkpoints, progress.

A callback overrides the methods of `Callback` that it needs. Callbacks are called in the order of their list.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import nn

from moso.evidence import check_fits
from moso.evidence.tensor_tree import flattened, nested
from moso.gradients import Loss
from moso.training.optimizers import Optimizer
from moso.training.step_plan import Step, StepPlan


@dataclass
class History:
    """Results of a training run, one entry per epoch."""

    loss: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)


@dataclass
class TrainingRun:
    """A network in training, as callbacks see it."""

    model: nn.Module
    optimizer: Optimizer
    plan: StepPlan
    label: str
    end: int
    """Number of the last update to make."""
    callbacks: Sequence["Callback"] = ()
    done: int = 0
    """Updates made so far."""
    ends_epoch: bool = False
    """Whether the last update was the last of its epoch, or of the run."""
    epoch_loss: float = 0.0
    """Sum of the losses of the epoch so far."""
    history: History = field(default_factory=History)

    def count(self, step: Step, loss: float) -> None:
        """Count an update with its mean loss, and close the epoch if it was the last of one."""
        self.done, self.epoch_loss = step.number, self.epoch_loss + loss
        per_epoch = self.plan.per_epoch
        self.ends_epoch = step.number in (self.end, (step.epoch + 1) * per_epoch)
        if self.ends_epoch:
            self.history.loss.append(self.epoch_loss / (step.number - step.epoch * per_epoch))
            self.history.learning_rate.append(step.rate)
            self.epoch_loss = 0.0

    def position(self) -> dict[str, torch.Tensor]:
        """Return all tensors that a checkpoint needs to resume bit for bit: network, optimiser and callbacks."""
        own = {one.name: state for one in self.callbacks if (state := one.state())}
        return position_of(self.model, self.optimizer) | flattened(own, ".")

    def note(self) -> dict[str, Any]:
        """Return all numbers that a checkpoint needs to resume."""
        return {"step": self.done, "epoch_loss": self.epoch_loss, **asdict(self.history)}

    def load(self, position: Mapping[str, torch.Tensor], note: Mapping[str, Any], source: str) -> None:
        """Resume from a checkpoint.

        Args:
            position: Tensors from `position()`.
            note: Numbers from `note()`.
            source: Name of the checkpoint in errors.

        Raises:
            CheckpointMismatch: The checkpoint does not fit the network.
        """
        found = nested(position, ".")
        own = found.get("model", {})
        check_fits(self.model, own, source)
        self.model.load_state_dict(own)
        self.optimizer.load(nested(found.get("optimizer", {}), "."))
        for callback in self.callbacks:
            if callback.name in found:
                callback.load(found[callback.name])
        self.done, self.epoch_loss = note["step"], note["epoch_loss"]
        self.history = History(list(note["loss"]), list(note["learning_rate"]))


def position_of(model: nn.Module, optimizer: Optimizer) -> dict[str, torch.Tensor]:
    """Return the state of network and optimiser, one flat name per tensor."""
    return flattened({"model": model.state_dict(), "optimizer": optimizer.state()}, ".")


class Callback:
    """A callback that does nothing; subclasses override what they need."""

    name = ""
    """Name of its part of a checkpoint; an empty name means that it has none."""

    def around(self, run: TrainingRun) -> AbstractContextManager[None]:
        """Return a context around all steps; code after its `yield` runs only if training succeeds."""
        return nullcontext()

    def losses(self, run: TrainingRun, step: Step, loss: Loss) -> Loss:
        """Return the loss function of a step; a callback may wrap it to observe it, or to weigh samples on purpose."""
        return loss

    def after_backward(self, run: TrainingRun, step: Step) -> None:
        """Called when gradients are there, before clipping and the update."""

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """Called after the update, when the run has counted it."""

    def must_save(self, run: TrainingRun) -> bool:
        """Return whether a checkpoint has to be written after this step, regardless of the time since the last."""
        return False

    def state(self) -> dict[str, torch.Tensor]:
        """Return the tensors that a checkpoint must hold for this callback; called whenever one is written."""
        return {}

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Resume from what `state` returned."""


def overriding(callbacks: Sequence[Callback], method: str) -> list[Callback]:
    """Return the callbacks that have a method of their own; those that inherit it from `Callback` need no call.

    Example:
        >>> [len(overriding([AfterStep(print)], name)) for name in ("after_step", "losses")]
        [1, 0]
    """
    return [one for one in callbacks if getattr(type(one), method) is not getattr(Callback, method)]


class AfterStep(Callback):
    """Calls a function after every update."""

    def __init__(self, function: Callable[[TrainingRun, Step], None]) -> None:
        self.function = function

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """Call the function."""
        self.function(run, step)
