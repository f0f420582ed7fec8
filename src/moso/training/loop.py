"""The one training loop: SGD or AdamW on addressed batches, resumable at any step to the same bits.

Which samples make up the batches of an epoch is a function of (seed, epoch, sample id), so a run that was
killed goes on from its last saved position as if nothing had happened. Surrogates, retrainings and
calibration all pass through here.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.columns import take
from moso.data.views import View, load, split_evenly
from moso.evidence import DynamicsRecorder, check_fits, read_state, write_state
from moso.gradients import Loss, cross_entropy, evaluation_mode, map_tensors, to_device
from moso.progress import Progress, silent
from moso.randomness import hash_order, reseed, seeded
from moso.training.in_run import InRun
from moso.training.recipe import TrainingRecipe
from moso.training.schedule import learning_rate
from moso.training.team import ALONE, Team

OnStep = Callable[[nn.Module, torch.optim.Optimizer, int, int], None]


@dataclass(frozen=True)
class TrainingData:
    """What is learned from: a view, and the positions of it that take part."""

    view: View
    positions: NDArray[np.int64]
    keys: NDArray[np.uint64]

    def epoch_batches(self, batch_size: int, epoch: int, seed: int) -> list[NDArray[np.int64]]:
        """The batches of an epoch: positions in the order of hash(seed, epoch, id)."""
        order = hash_order(take(self.keys, self.positions), seed, "order", epoch)
        return split_evenly(take(self.positions, order), batch_size)

    def steps_per_epoch(self, batch_size: int) -> int:
        """How many updates an epoch makes."""
        return max(1, -(-len(self.positions) // batch_size))


@dataclass
class History:
    """What a training run can tell afterwards, an entry an epoch."""

    loss: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Checkpoints:
    """Where a run is saved so that it can go on after a kill, and how many seconds may pass in between.

    `on_save` is told how many seconds have passed, `on_epoch` the number of an epoch, its loss and its last rate.
    """

    path: Path
    seconds: float = 10.0
    on_save: Callable[[float], None] = lambda seconds: None
    on_epoch: Callable[[int, float, float], None] = lambda epoch, loss, learning_rate: None


@contextmanager
def threads(count: int) -> Iterator[None]:
    """PyTorch with `count` threads: they change the bits of a result, so they belong to the configuration."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(
    model: nn.Module,
    data: TrainingData,
    recipe: TrainingRecipe,
    *,
    seed: int,
    total_steps: int | None = None,
    loss: Loss = cross_entropy,
    on_step: OnStep | None = None,
    checkpoints: Checkpoints | None = None,
    in_run: InRun | None = None,
    dynamics: DynamicsRecorder | None = None,
    stop_after: int | None = None,
    loader_workers: int = 0,
    progress: Progress = silent,
    label: str = "training",
    team: Team = ALONE,
) -> History:
    """Train `model` in place for the recipe's epochs, or for exactly `total_steps` updates.

    `on_step(model, optimizer, step, epoch)` is called after every update, before anything else happens. `in_run`
    collects the terms of scores on the way, `dynamics` what the network says about the samples it meets. With
    `stop_after` only the first so many updates are made, with the learning rates of the whole run. A `team` of several
    processes shares every batch; all of them make this call.
    """
    device = next(model.parameters()).device
    per_epoch = data.steps_per_epoch(recipe.batch_size)
    total = recipe.epochs * per_epoch if total_steps is None else total_steps
    schedule_epoch = max(1, round(total / recipe.epochs))
    if recipe.channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = optimizer_for(model, recipe)
    scaler = torch.amp.GradScaler(device.type, enabled=recipe.precision == "float16")
    history, epoch_loss, step = _resume(checkpoints, model, optimizer, in_run)
    saved_at = time.monotonic()
    end = total if stop_after is None else min(stop_after, total)
    model.train()
    learner = team.learner(model, len(data.positions) // per_epoch)
    with seeded(seed, "training"), nullcontext() if dynamics is None else dynamics.watching(model):
        while step < end:
            epoch, first = divmod(step, per_epoch)
            plan = data.epoch_batches(recipe.batch_size, epoch, seed)[first : first + end - step]
            shares = [team.share(positions) for positions in plan]
            for positions, batch in zip(plan, load(data.view, shares, epoch, loader_workers), strict=True):
                step += 1
                rate = learning_rate(recipe, step, total, schedule_epoch)
                for group in optimizer.param_groups:
                    group["lr"] = rate
                counting = in_run if in_run is not None and in_run.counts(step) else None
                batch = to_device(batch, device)
                value = _update(learner, optimizer, scaler, batch, recipe, loss, seed, step, positions, counting, team)
                if not math.isfinite(value):
                    raise errors.TrainingDiverged(
                        f"{label}: the loss became {value} at step {step} of {total} (epoch {epoch + 1}) "
                        f"with learning rate {rate:.3g}; lower it or clip gradients. What was complete is kept"
                    )
                epoch_loss += value
                if in_run is not None:
                    in_run.finish(step)
                if dynamics is not None:
                    dynamics.record(epoch, positions)
                if on_step is not None:
                    on_step(model, optimizer, step, epoch)
                ends = step == end or step % per_epoch == 0
                if ends:
                    history.loss.append(epoch_loss / (step - epoch * per_epoch))
                    history.learning_rate.append(rate)
                    epoch_loss = 0.0
                    if checkpoints is not None:
                        checkpoints.on_epoch(epoch + 1, history.loss[-1], rate)
                due = time.monotonic() - saved_at
                # What compares epochs overwrites the one before the last: no resumed run may go back that far.
                must = dynamics is not None and dynamics.compares_epochs and ends
                if checkpoints is not None and (must or (step < end and due > checkpoints.seconds)):
                    if dynamics is not None:
                        dynamics.flush()
                    _save(checkpoints, model, optimizer, history, epoch_loss, step, in_run)
                    checkpoints.on_save(time.monotonic() - saved_at)
                    saved_at = time.monotonic()
                progress(label, step, end)
    if dynamics is not None:
        dynamics.finish()
    if checkpoints is not None:
        checkpoints.on_save(time.monotonic() - saved_at)
    return history


def optimizer_for(model: nn.Module, recipe: TrainingRecipe) -> torch.optim.Optimizer:
    """The recipe's optimiser, one group of everything that is trained."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rate, decay = recipe.learning_rate, recipe.weight_decay
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(trained, lr=rate, betas=(recipe.momentum, 0.999), weight_decay=decay)
    return torch.optim.SGD(trained, lr=rate, momentum=recipe.momentum, nesterov=recipe.nesterov, weight_decay=decay)


def _update(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    batch: Any,
    recipe: TrainingRecipe,
    loss: Loss,
    seed: int,
    step: int,
    positions: NDArray[np.int64],
    in_run: InRun | None,
    team: Team,
) -> float:
    device = next(model.parameters()).device
    if recipe.channels_last:
        batch = map_tensors(_channels_last, batch)
    mixed = recipe.precision != "float32"
    precision = torch.autocast(device.type, dtype=getattr(torch, recipe.precision)) if mixed else nullcontext()
    # Dropout and its like draw from the global generator: each update gets an address of its own.
    reseed(seed, *team.address("update", step))
    with precision:
        losses = loss(model, batch) if in_run is None else in_run.losses(model, optimizer, loss, batch, step)
        mean = team.mean(losses, len(positions))
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(mean).backward()  # type: ignore[no-untyped-call]
    if in_run is not None:
        in_run.collect(positions, float(optimizer.param_groups[0]["lr"]))
    if recipe.clip_norm is not None:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
    scaler.step(optimizer)
    scaler.update()
    return team.average(mean)


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor


def position_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """All that a run needs to go on from here to the same bits, but for the number of the step."""
    state = {f"model.{name}": value for name, value in model.state_dict().items()}
    for number, parameter in enumerate(optimizer.param_groups[0]["params"]):
        own = optimizer.state[parameter].items()
        state |= {f"optimizer.{number}.{name}": value for name, value in own if value is not None}
    return state


def _save(
    checkpoints: Checkpoints,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    history: History,
    epoch_loss: float,
    step: int,
    in_run: InRun | None,
) -> None:
    state = position_of(model, optimizer)
    if in_run is not None:
        state |= {f"in-run.{name}": value for name, value in in_run.state().items()}
    note = {
        "step": step,
        "epoch_loss": epoch_loss,
        "loss": history.loss,
        "learning_rate": history.learning_rate,
    }
    write_state(checkpoints.path, state, note)


def _resume(
    checkpoints: Checkpoints | None, model: nn.Module, optimizer: torch.optim.Optimizer, in_run: InRun | None
) -> tuple[History, float, int]:
    if checkpoints is None or not checkpoints.path.exists():
        return History(), 0.0, 0
    state, note = read_state(checkpoints.path)
    own = {name.removeprefix("model."): value for name, value in state.items() if name.startswith("model.")}
    check_fits(model, own, f"the saved position {checkpoints.path}")
    model.load_state_dict(own)
    parameters = optimizer.param_groups[0]["params"]
    for key, value in state.items():
        if key.startswith("optimizer."):
            _, number, name = key.split(".")
            parameter = parameters[int(number)]
            if name != "step":  # AdamW counts on the CPU
                value = value.to(parameter.device).contiguous(memory_format=_format_of(parameter))
            optimizer.state[parameter][name] = value
    if in_run is not None:
        in_run.load(
            {name.removeprefix("in-run."): value for name, value in state.items() if name.startswith("in-run.")}
        )
    return History(note["loss"], note["learning_rate"]), note["epoch_loss"], note["step"]


def _format_of(parameter: torch.Tensor) -> torch.memory_format:
    # Channels-last parameters have channels-last momentum; another layout would be another order of sums.
    channels_last = parameter.ndim == 4 and parameter.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if channels_last else torch.contiguous_format


@torch.no_grad()
def predict(
    model: nn.Module, view: View, positions: NDArray[np.int64], batch_size: int = 512, loader_workers: int = 0
) -> torch.Tensor:
    """The network's outputs in evaluation mode, `[positions, ...]`, on the CPU."""
    device = next(model.parameters()).device
    outputs = []
    with evaluation_mode(model):
        for batch in load(view, split_evenly(positions, batch_size), 0, loader_workers):
            outputs.append(model(to_device(batch[0], device)).float().cpu())
    return torch.cat(outputs)
