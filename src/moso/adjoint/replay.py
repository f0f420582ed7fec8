"""Replays a recorded training run, from its end to its start.

During training, `ReplayRecorder` writes a checkpoint (network and optimiser) every `ceil(sqrt(T))` updates, with a hash
of its bits. In the replay, the segments between checkpoints are trained again by the same loop, the last segment first.
The states of a segment are held in memory, and the hash at its end must be the recorded one: a difference is an error.
A run of T updates thus costs sqrt(T) checkpoints on disk, sqrt(T) states in memory and one run of recomputation. A
segment that does not fit into `memory` is recomputed twice, the first time to write checkpoints inside it.
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
from moso.batch import Batch
from moso.evidence import read_state, write_state
from moso.evidence.trajectory import point_path
from moso.files import sweep
from moso.gradients import Loss, cross_entropy
from moso.training.callback import AfterStep, Callback, TrainingRun, position_of
from moso.training.checkpoints import Checkpoints
from moso.training.loop import train
from moso.training.optimizers import Optimizer
from moso.training.recipe import TrainingRecipe
from moso.training.step_plan import Step, StepPlan, TrainingData

MEMORY_BYTES = 512 * 2**20


class ReplayRecorder(Callback):
    """Writes the checkpoints that a replay needs while a network trains; a resumed run writes the same ones.

    Example:
        >>> sorted(ReplayRecorder(Path("unused"), total_steps=10).steps)
        [4, 8, 10]
    """

    def __init__(self, folder: Path, total_steps: int, every: int | None = None, first: int = 0) -> None:
        """Plan the checkpoints.

        Args:
            folder: Where checkpoints are written.
            total_steps: Number of updates of the run; the last one always has a checkpoint.
            every: Updates between checkpoints; by default ``ceil(sqrt(total_steps))``.
            first: The update after which counting begins.
        """
        self.folder, self.total_steps = folder, total_steps
        self.every = every or math.ceil(math.sqrt(total_steps))
        self.steps = {*range(first + self.every, total_steps, self.every), total_steps}

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """Write a checkpoint if one is due after this step."""
        if step.number in self.steps:
            position = position_of(run.model, run.optimizer)
            history: dict[str, Any] = {"epoch_loss": 0.0, "loss": [], "learning_rate": []}
            note = {"step": step.number, "every": self.every, "digest": digest(position), **history}
            write_state(point_path(self.folder, step.number), position, note)

    def is_complete(self) -> bool:
        """Return whether all checkpoints exist."""
        return all(point_path(self.folder, step).exists() for step in self.steps)

    def remove(self) -> None:
        """Delete the checkpoints, which are no longer needed."""
        for step in self.steps:
            point_path(self.folder, step).unlink(missing_ok=True)
        # The folder may be the user's own: other files in it stay.
        sweep(self.folder)
        if self.folder.exists() and not any(self.folder.iterdir()):
            self.folder.rmdir()


@dataclass(frozen=True)
class Update:
    """One update of the run.

    Attributes:
        state: The state before the update.
        after: The state after the update.
        positions: The samples of its batch, shape ``[batch]``.
        batch: The batch.
        rate: The learning rate.
    """

    state: TrainingState
    after: TrainingState
    positions: NDArray[np.int64]
    batch: Batch
    rate: float


@dataclass(frozen=True)
class Stretch:
    """The updates of one segment, after step `first`, in reverse order; batches are loaded lazily."""

    first: int
    updates: Iterator[Update]


@dataclass(frozen=True)
class Replay:
    """A recorded run that can be replayed.

    Attributes:
        folder: The checkpoints of a `ReplayRecorder`.
        start: The network before its first update; not changed.
        data: The training data.
        recipe: The training recipe, in float32.
        seed: Seed of the run.
        total_steps: Number of updates.
        loss: Returns one loss per sample.
        loader_workers: Number of data loader processes.
        memory: Bytes of states that may be held at one time.

    Raises:
        RecipeUnsuitable: The recipe's precision is not float32.
        TrajectoryIncomplete: Checkpoints are missing.
    """

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
        """Return the steps that have checkpoints, including 0.

        Raises:
            TrajectoryIncomplete: Checkpoints are missing.
        """
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
        """Return the state after the last update."""
        return self._state(self._checkpoint(self.total_steps), self.total_steps)

    def backwards(self, before: int | None = None) -> Iterator[Stretch]:
        """Yield the segments of the run in reverse order.

        Every segment is trained again from its checkpoint, and must reproduce the next checkpoint bit for bit.

        Args:
            before: Step of the checkpoint to begin at; by default the end of the run.

        Raises:
            NotDeterministic: A segment does not reproduce its checkpoint.
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
        try:
            for one, other in reversed(list(pairwise(sorted(begins)))):
                yield self._stretch(begins[one], one, begins[other], other)
        finally:  # also where a window ends inside the segment
            shutil.rmtree(scratch)

    def _stretch(self, begin: Path | None, first: int, end: Path | None, last: int) -> Stretch:
        """Replay the updates `first + 1` to `last` and check the state at the end."""
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
        """Run the training loop from a checkpoint up to update `last`."""
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
            # Dropout draws its mask in memory order, so the memory format must be that of training.
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
