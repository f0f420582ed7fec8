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
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.adjoint.state import TrainingState, digest
from moso.evidence import read_state, write_state
from moso.evidence.trajectory import point_path
from moso.files import sweep
from moso.gradients import Loss, cross_entropy
from moso.training.callback import AfterStep, Callback, TrainingRun, position_of
from moso.training.checkpoints import Checkpoints
from moso.training.loop import train
from moso.training.optimizers import Optimizer
from moso.training.recipe import TrainingRecipe
from moso.training.steps import Step, StepPlan, TrainingData

MEMORY_BYTES = 512 * 2**20


class ReplayRecorder(Callback):
    """Leaves what a replay needs while a network trains; called again after a kill it writes the same.

    >>> sorted(ReplayRecorder(Path("unused"), total_steps=10).steps)
    [4, 8, 10]
    """

    def __init__(self, folder: Path, total_steps: int, every: int | None = None, first: int = 0) -> None:
        """Checkpoints lie `every` updates after `first`, and at the end."""
        self.folder, self.total_steps = folder, total_steps
        self.every = every or math.ceil(math.sqrt(total_steps))
        self.steps = {*range(first + self.every, total_steps, self.every), total_steps}

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """Write the position if it is time to."""
        if step.number in self.steps:
            position = position_of(run.model, run.optimizer)
            history: dict[str, Any] = {"epoch_loss": 0.0, "loss": [], "learning_rate": []}
            note = {"step": step.number, "every": self.every, "digest": digest(position), **history}
            write_state(point_path(self.folder, step.number), position, note)

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
                "training (moso run --method moso-adjoint, or a ReplayRecorder among the callbacks)"
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
        self._run(self._checkpoint(first), last, recorder)
        self._compare(first, last, read_state(point_path(scratch, last))[1]["digest"], self._checkpoint(last))
        begins = {first: self._checkpoint(first), **{step: point_path(scratch, step) for step in recorder.steps}}
        for one, other in reversed(list(pairwise(sorted(begins)))):
            yield self._stretch(begins[one], one, begins[other], other)
        shutil.rmtree(scratch)

    def _stretch(self, begin: Path | None, first: int, end: Path | None, last: int) -> Stretch:
        """Updates `last` down to `first + 1`."""
        states = [self._state(begin, first)]
        found = ""

        def hold(run: TrainingRun, step: Step) -> None:
            nonlocal found
            states.append(TrainingState.of(run.model, run.optimizer, step.number))
            if step.number == last:
                found = digest(position_of(run.model, run.optimizer))

        self._run(begin, last, AfterStep(hold))
        self._compare(first, last, found, end)
        return Stretch(first, self._updates(states))

    def _updates(self, states: list[TrainingState]) -> Iterator[Update]:
        first, last = states[0].step, states[-1].step
        for step, batch in self.plan.walk(range(last, first, -1), self.loader_workers):
            after = step.number - first
            yield Update(states[after - 1], states[after], step.positions, batch, step.rate)

    @property
    def plan(self) -> StepPlan:
        """The steps of the run."""
        return StepPlan(self.data, self.recipe, self.seed, self.total_steps)

    def _run(self, begin: Path | None, last: int, callback: Callback) -> None:
        """The training loop itself, from a checkpoint up to update `last`."""
        resumed = [] if begin is None else [Checkpoints(begin, seconds=math.inf)]
        train(
            copy.deepcopy(self.start),
            self.plan,
            loss=self.loss,
            callbacks=[callback, *resumed],
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
        run = TrainingRun(model, Optimizer(model, self.recipe), self.plan, "replay", step)
        if checkpoint is not None:
            run.load(*read_state(checkpoint), f"the checkpoint {checkpoint}")
        return TrainingState.of(model, run.optimizer, step)

    def _compare(self, first: int, last: int, found: str, end: Path | None) -> None:
        assert end is not None
        if found != read_state(end)[1]["digest"]:
            raise errors.NotDeterministic(
                f"steps {first + 1} to {last}, trained again, do not arrive at the recorded state bit for bit: a "
                "kernel, a layer or the data is not deterministic, or the device, the threads or the data are others; "
                "make training repeatable (torch.use_deterministic_algorithms(True)) and record it again"
            )
