"""A training run on its way, and what may look on: recorders, scores in the run, saved positions, progress.

A callback overrides what it needs of `Callback`. Callbacks are called in the order of their list.
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
from moso.training.steps import Step, StepPlan


@dataclass
class History:
    """What a training run can tell afterwards, one entry per epoch."""

    loss: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)


@dataclass
class TrainingRun:
    """A network in training: what callbacks see of it."""

    model: nn.Module
    optimizer: Optimizer
    plan: StepPlan
    label: str
    end: int
    """Number of the last update that is to be made."""
    callbacks: Sequence["Callback"] = ()
    done: int = 0
    """Updates made so far."""
    ends_epoch: bool = False
    """Whether the last update was the last of its epoch, or of the run."""
    epoch_loss: float = 0.0
    """Sum of the losses of the epoch so far."""
    history: History = field(default_factory=History)

    def count(self, step: Step, loss: float) -> None:
        """Count an update with its mean loss."""
        self.done, self.epoch_loss = step.number, self.epoch_loss + loss
        per_epoch = self.plan.per_epoch
        self.ends_epoch = step.number in (self.end, (step.epoch + 1) * per_epoch)
        if self.ends_epoch:
            self.history.loss.append(self.epoch_loss / (step.number - step.epoch * per_epoch))
            self.history.learning_rate.append(step.rate)
            self.epoch_loss = 0.0

    def position(self) -> dict[str, torch.Tensor]:
        """All tensors that are needed to go on from here to the same bits."""
        own = {one.name: state for one in self.callbacks if (state := one.state())}
        return position_of(self.model, self.optimizer) | flattened(own, ".")

    def note(self) -> dict[str, Any]:
        """All numbers that are needed to go on from here."""
        return {"step": self.done, "epoch_loss": self.epoch_loss, **asdict(self.history)}

    def load(self, position: Mapping[str, torch.Tensor], note: Mapping[str, Any], source: str) -> None:
        """Go on from what `position` and `note` gave; `source` names them in errors."""
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
    """The state of network and optimiser under one name per tensor."""
    return flattened({"model": model.state_dict(), "optimizer": optimizer.state()}, ".")


class Callback:
    """Looks on and does nothing."""

    name = ""
    """What its part of a saved position is called; without a name it has none."""

    def around(self, run: TrainingRun) -> AbstractContextManager[None]:
        """A context in which all steps are made; what follows its `yield` is done only if training ends well."""
        return nullcontext()

    def losses(self, run: TrainingRun, step: Step, loss: Loss) -> Loss:
        """The loss function of a step, which the callback may watch; its values are those that are learned from."""
        return loss

    def after_backward(self, run: TrainingRun, step: Step) -> None:
        """Gradients are there; nothing is clipped or moved yet."""

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """The update was made, and the run has counted it."""

    def must_save(self, run: TrainingRun) -> bool:
        """Whether the position has to be saved after this step, however little time has passed."""
        return False

    def state(self) -> dict[str, torch.Tensor]:
        """What a saved position must hold to go on; called whenever one is saved."""
        return {}

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from what `state` gave."""


class AfterStep(Callback):
    """Calls a function after every update."""

    def __init__(self, function: Callable[[TrainingRun, Step], None]) -> None:
        self.function = function

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """Call the function."""
        self.function(run, step)
