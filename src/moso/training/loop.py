"""The one training loop: any optimiser on addressed batches, resumable at any step bit for bit.

The samples of each batch are a function of (seed, epoch, sample id), so a run that was killed resumes from its last
checkpoint and ends with the same result. Surrogates, retrainings and calibration all use this loop.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.data.views import View, load, split_evenly
from moso.gradients import Loss, cross_entropy, evaluation_mode, map_tensors, to_device
from moso.randomness import reseed, seeded
from moso.training.callback import AfterStep, Callback, History, TrainingRun, overriding
from moso.training.checkpoints import Checkpoints
from moso.training.optimizers import Optimizer
from moso.training.step_plan import Step, StepPlan, TrainingData
from moso.training.team import ALONE, Team

__all__ = [
    "AfterStep",
    "Callback",
    "Checkpoints",
    "History",
    "StepPlan",
    "TrainingData",
    "TrainingRun",
    "predict",
    "threads",
    "train",
]


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run PyTorch with `count` threads; the number changes the bits of a result, so it belongs to the configuration."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(
    model: nn.Module,
    plan: StepPlan,
    *,
    loss: Loss = cross_entropy,
    callbacks: Sequence[Callback] = (),
    label: str = "training",
    stop_after: int | None = None,
    loader_workers: int = 0,
    team: Team = ALONE,
) -> History:
    """Train a network in place.

    Args:
        model: The network.
        plan: Data, recipe, seed and number of updates.
        loss: One loss per sample of a batch, shape `[batch]`.
        callbacks: Callbacks, called in this order.
        label: Name of the training in messages.
        stop_after: Make only the first so many updates, with the learning rates of the whole run.
        loader_workers: Processes that load batches ahead.
        team: Processes that share every batch; all of them make this call.

    Returns:
        Mean loss and last learning rate per epoch.

    Raises:
        TrainingDiverged: A loss was not finite.
        CheckpointMismatch: A checkpoint is not of this network.

    Example:
        >>> from moso.data.views import as_view
        >>> from moso.training.recipe import TrainingRecipe
        >>> data = TrainingData(as_view((np.eye(4), [0, 1, 0, 1])), np.arange(4), np.arange(4, dtype=np.uint64))
        >>> recipe = TrainingRecipe(epochs=3, batch_size=2, learning_rate=0.1, schedule="constant")
        >>> len(train(nn.Linear(4, 2), StepPlan(data, recipe, seed=0)).loss)
        3
    """
    recipe, seed = plan.recipe, plan.seed
    if recipe.channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    end = plan.total if stop_after is None else min(stop_after, plan.total)
    run = TrainingRun(model, Optimizer(model, recipe), plan, label, end, callbacks)
    model.train()
    with ExitStack() as contexts:
        contexts.enter_context(seeded(seed, "training"))
        for callback in callbacks:
            contexts.enter_context(callback.around(run))
        learner = team.learner(model, len(plan.data.positions) // plan.per_epoch)
        update, following = _Update(run, learner, loss, team), overriding(callbacks, "after_step")
        for step, batch in plan.walk(range(run.done + 1, end + 1), loader_workers, team.share):
            value = update.make(step, batch)
            if not math.isfinite(value):
                raise errors.TrainingDiverged(
                    f"{label}: the loss became {value} at step {step.number} of {plan.total} (epoch {step.epoch + 1}) "
                    f"with learning rate {step.rate:.3g}; lower it or clip gradients. Complete pieces are kept"
                )
            run.count(step, value)
            for callback in following:
                callback.after_step(run, step)
    return run.history


class _Update:
    """Makes the updates of a run: forward pass, backward pass, optimiser."""

    def __init__(self, run: TrainingRun, learner: nn.Module, loss: Loss, team: Team) -> None:
        self.run, self.learner, self.loss, self.team = run, learner, loss, team
        self.device = next(run.model.parameters()).device
        self.recipe = run.plan.recipe
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.recipe.precision == "float16")
        self.wrapping, self.watching = (overriding(run.callbacks, name) for name in ("losses", "after_backward"))

    def make(self, step: Step, batch: Any) -> float:
        """Make one update and return the mean loss of its batch, computed before the update."""
        batch = to_device(batch, self.device)
        if self.recipe.channels_last:
            batch = map_tensors(_channels_last, batch)
        loss = self.loss
        for callback in self.wrapping:
            loss = callback.losses(self.run, step, loss)
        optimizer, mixed = self.run.optimizer, self.recipe.precision != "float32"
        number_type = getattr(torch, self.recipe.precision)
        # Dropout and similar layers draw from the global generator, so each update seeds it with its own address.
        reseed(self.run.plan.seed, *self.team.address("update", step.number))
        with torch.autocast(self.device.type, dtype=number_type) if mixed else nullcontext():
            mean = self.team.mean(loss(self.learner, batch), len(step.positions))
        optimizer.zero_grad()
        self.scaler.scale(mean).backward()  # type: ignore[no-untyped-call]
        for callback in self.watching:
            callback.after_backward(self.run, step)
        optimizer.rate = step.rate
        # `GradScaler.step` needs only `param_groups` and `step`; it skips the step if a gradient overflowed.
        self.scaler.step(cast(torch.optim.Optimizer, optimizer))
        self.scaler.update()
        return self.team.average(mean)


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor


@torch.no_grad()
def predict(
    model: nn.Module, view: View, positions: NDArray[np.int64], batch_size: int = 512, loader_workers: int = 0
) -> torch.Tensor:
    """Return the network's outputs in evaluation mode, shape `[positions, ...]`, on the CPU."""
    device = next((one.device for one in model.parameters()), torch.device("cpu"))  # an identity has none
    outputs = []
    with evaluation_mode(model):
        for batch in load(view, split_evenly(positions, batch_size), 0, loader_workers):
            outputs.append(model(to_device(batch[0], device)).float().cpu())
    return torch.cat(outputs)
