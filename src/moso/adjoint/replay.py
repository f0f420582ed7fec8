"""Running a recorded training again, from its end to its start.

While the run trains, `ReplayRecorder` writes the whole position (network and optimiser) every `ceil(sqrt(T))` updates,
and a hash of its bits with it. Backwards, one stretch between two checkpoints after the other is trained again by the
very same loop, its states are held in memory, and the hash at its end must be the recorded one: a drift is an error. So
a run of T updates costs sqrt(T) checkpoints on disk, sqrt(T) states in memory and one run of recomputation; where a
stretch does not fit into `memory`, it is recomputed twice, the first time to leave checkpoints inside it.
"""

import copy
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.adjoint.state import SLOTS, Slots, TrainingState, digest
from moso.data.views import load
from moso.evidence import check_fits, read_state, write_state
from moso.evidence.trajectory import point_path
from moso.files import sweep
from moso.gradients import Loss, cross_entropy
from moso.training.loop import Checkpoints, OnStep, TrainingData, position_of, train
from moso.training.recipe import TrainingRecipe
from moso.training.schedule import learning_rate

MEMORY_BYTES = 512 * 2**20


class ReplayRecorder:
    """An `on_step` of the training loop that leaves what a replay needs; called again after a kill it writes the same.

    >>> sorted(ReplayRecorder(Path("unused"), total_steps=10).steps)
    [4, 8, 10]
    """

    def __init__(self, folder: Path, total_steps: int, every: int | None = None, first: int = 0) -> None:
        """Checkpoints lie `every` updates after `first`, and at the end."""
        self.folder, self.total_steps = folder, total_steps
        self.every = every or math.ceil(math.sqrt(total_steps))
        self.steps = {*range(first + self.every, total_steps, self.every), total_steps}

    def step(self, model: nn.Module, optimizer: torch.optim.Optimizer, step: int, epoch: int) -> None:
        """Note that update `step` was made."""
        if step in self.steps:
            position = position_of(model, optimizer)
            history: dict[str, Any] = {"epoch_loss": 0.0, "loss": [], "learning_rate": []}
            note = {"step": step, "every": self.every, "digest": digest(position), **history}
            write_state(point_path(self.folder, step), position, note)

    def is_complete(self) -> bool:
        """Whether all checkpoints are there."""
        return all(point_path(self.folder, step).exists() for step in self.steps)

    def remove(self) -> None:
        """Delete the checkpoints: nobody will go back again."""
        for step in self.steps:
            point_path(self.folder, step).unlink(missing_ok=True)
        # The folder may be the user's own: what is in it besides stays.
        sweep(self.folder)
        if self.folder.exists() and not any(self.folder.iterdir()):
            self.folder.rmdir()


@dataclass(frozen=True)
class Update:
    """One update of the run: the state before it, whom it was made on, and its rate."""

    state: TrainingState
    after: TrainingState
    positions: NDArray[np.int64]
    batch: Any
    rate: float


@dataclass(frozen=True)
class Stretch:
    """The updates after step `first`, the last one first; their batches are loaded as they are asked for."""

    first: int
    updates: Iterator[Update]


@dataclass(frozen=True)
class Replay:
    """A recorded run that can be run again; `start` is the network before its first update and is not changed."""

    folder: Path
    start: nn.Module
    data: TrainingData
    recipe: TrainingRecipe
    seed: int
    total_steps: int
    loss: Loss = cross_entropy
    loader_workers: int = 0
    memory: int = MEMORY_BYTES

    def __post_init__(self) -> None:
        if self.recipe.precision != "float32":
            raise errors.RecipeUnsuitable(
                f"the adjoint differentiates training in float32, not in {self.recipe.precision}; "
                "use a recipe with precision 'float32'"
            )
        self.boundaries()

    def boundaries(self) -> list[int]:
        """The steps that have checkpoints, the start included; a run without them is refused."""
        found = sorted(int(path.stem.removeprefix("step-")) for path in self.folder.glob("step-*.safetensors"))
        if not found or found[-1] != self.total_steps:
            raise errors.TrajectoryIncomplete(
                f"{self.folder} has no replay information of a run of {self.total_steps} steps; it is recorded while "
                "training (moso run --method moso-adjoint, or a ReplayRecorder as on_step)"
            )
        every = read_state(point_path(self.folder, self.total_steps))[1].get("every", 0)
        missing = sorted(ReplayRecorder(self.folder, self.total_steps, every).steps - set(found))
        if missing:
            raise errors.TrajectoryIncomplete(
                f"{point_path(self.folder, missing[0])} is missing, and without it the run cannot be replayed"
            )
        return [0, *found]

    def end(self) -> TrainingState:
        """The state after the last update."""
        return self._state(self._checkpoint(self.total_steps), self.total_steps)

    def backwards(self, before: int | None = None) -> Iterator[Stretch]:
        """The run from its end, or from the checkpoint `before`, to its start, a stretch at a time, last updates first.

        Every stretch is trained again from its checkpoint and must arrive at the next one bit for bit.
        """
        marks = [mark for mark in self.boundaries() if mark <= (self.total_steps if before is None else before)]
        room = max(1, self.memory // (2 * self.end().size()))
        for first, last in reversed(list(pairwise(marks))):
            if last - first <= room:
                yield self._stretch(self._checkpoint(first), first, self._checkpoint(last), last)
            else:
                yield from self._in_pieces(first, last, room)

    def _in_pieces(self, first: int, last: int, room: int) -> Iterator[Stretch]:
        scratch = self.folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        recorder = ReplayRecorder(scratch, last, room, first)
        self._run(self._checkpoint(first), last, recorder.step)
        self._compare(first, last, read_state(point_path(scratch, last))[1]["digest"], self._checkpoint(last))
        begins = {first: self._checkpoint(first), **{step: point_path(scratch, step) for step in recorder.steps}}
        for one, other in reversed(list(pairwise(sorted(begins)))):
            yield self._stretch(begins[one], one, begins[other], other)
        shutil.rmtree(scratch)

    def _stretch(self, begin: Path | None, first: int, end: Path | None, last: int) -> Stretch:
        """Updates `last` down to `first + 1`."""
        states = [self._state(begin, first)]
        found = ""

        def hold(model: nn.Module, optimizer: torch.optim.Optimizer, step: int, epoch: int) -> None:
            nonlocal found
            states.append(TrainingState.of(model, optimizer, step, self.recipe.optimizer))
            if step == last:
                found = digest(position_of(model, optimizer))

        self._run(begin, last, hold)
        self._compare(first, last, found, end)
        return Stretch(first, self._updates(states))

    def _updates(self, states: list[TrainingState]) -> Iterator[Update]:
        recipe, first, last = self.recipe, states[0].step, states[-1].step
        per_epoch = self.data.steps_per_epoch(recipe.batch_size)
        schedule_epoch = max(1, round(self.total_steps / recipe.epochs))
        for epoch in range((last - 1) // per_epoch, first // per_epoch - 1, -1):
            done = range(max(first, epoch * per_epoch), min(last, (epoch + 1) * per_epoch))
            batches = self.data.epoch_batches(recipe.batch_size, epoch, self.seed)
            plan = [batches[number % per_epoch] for number in reversed(done)]
            loaded = load(self.data.view, plan, epoch, self.loader_workers)
            for number, positions, batch in zip(reversed(done), plan, loaded, strict=True):
                rate = learning_rate(recipe, number + 1, self.total_steps, schedule_epoch)
                yield Update(states[number - first], states[number - first + 1], positions, batch, rate)

    def _run(self, begin: Path | None, last: int, on_step: OnStep) -> None:
        """The training loop itself, from a checkpoint up to update `last`."""
        train(
            copy.deepcopy(self.start),
            self.data,
            self.recipe,
            seed=self.seed,
            total_steps=self.total_steps,
            loss=self.loss,
            on_step=on_step,
            checkpoints=None if begin is None else Checkpoints(begin, seconds=math.inf),
            stop_after=last,
            loader_workers=self.loader_workers,
        )

    def _checkpoint(self, step: int) -> Path | None:
        return None if step == 0 else point_path(self.folder, step)

    def _state(self, checkpoint: Path | None, step: int) -> TrainingState:
        model = copy.deepcopy(self.start)
        if self.recipe.channels_last:
            # Dropout draws its mask in the order of memory, so the layout has to be that of training.
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if checkpoint is None:
            return TrainingState.at_start(model)
        position, _ = read_state(checkpoint)
        own = {name.removeprefix("model."): value for name, value in position.items() if name.startswith("model.")}
        check_fits(model, own, f"the checkpoint {checkpoint}")
        model.load_state_dict(own)
        names = [name for name, value in model.named_parameters() if value.requires_grad]
        slots: Slots = {}
        for slot in SLOTS[self.recipe.optimizer]:
            held = {name: position.get(f"optimizer.{number}.{slot}") for number, name in enumerate(names)}
            device = next(model.parameters()).device
            slots[slot] = {name: value.to(device) for name, value in held.items() if value is not None}
        return replace(TrainingState.at_start(model), step=step, slots=slots)

    def _compare(self, first: int, last: int, found: str, end: Path | None) -> None:
        assert end is not None
        if found != read_state(end)[1]["digest"]:
            raise errors.NotDeterministic(
                f"steps {first + 1} to {last}, trained again, do not arrive at the recorded state bit for bit: a "
                "kernel, a layer or the data is not deterministic, or the device, the threads or the data are others; "
                "make training repeatable (torch.use_deterministic_algorithms(True)) and record it again"
            )
