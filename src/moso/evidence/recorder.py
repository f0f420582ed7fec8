"""The recorder: two lines before any training loop leave a trajectory that can be scored."""

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from weakref import WeakSet, finalize

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from moso import errors
from moso.errors import MosoError
from moso.evidence.moments import Moments, check_known, moments_by_id, moments_path, write_moments
from moso.evidence.network_names import uncompiled_name
from moso.evidence.recordable import check_optimizers, recordable_network
from moso.evidence.state_files import write_state
from moso.evidence.steps import Sampling, sample_steps
from moso.evidence.trajectory import Trajectory, point_path, remove_point
from moso.evidence.unmoved import Unmoved
from moso.evidence.updates import (
    Unread,
    Watch,
    inner_optimizer,
    learning_rates,
    moving,
    parameters_of,
)
from moso.files import write_record
from moso.randomness import hashes

_log = logging.getLogger(__name__)

# One pair per parameter group: a learning rate, and the parameters that it moves.
_Moves = list[tuple[float, list[nn.Parameter]]]


class Attachment:
    """The handle that `Recorder.attach` returns; `remove()` or leaving its `with` block ends the recording."""

    def __init__(self, recorder: "Recorder", model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        self.model = model
        self.optimizers = optimizers
        self._recorder = recorder
        self._watch = Watch(recorder._updated, optimizers)

    def remove(self) -> None:
        """Stop recording; the recorder may be attached again and then continues its count of steps."""
        self._watch.remove()
        if self._recorder._attachment is self:
            self._recorder._attachment = None

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


class Recorder:
    """Writes the sampled steps of a training run, and only those.

    One call of `attach` before training is enough: every update is seen where it happens, before any scheduler, in
    plain loops and in those of accelerate, transformers, Lightning and skorch. The alternative is to call `step` after
    every `optimizer.step()`. With `total_steps=None` the recorder keeps a uniform sample (a reservoir) of all steps.

    Example:
        >>> import tempfile
        >>> model = nn.Linear(2, 2)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> recorder = Recorder(tempfile.mkdtemp(), total_steps=20, samples=4, seed=0)
        >>> _ = recorder.attach(model, optimizer)
        >>> for _ in range(20):
        ...     optimizer.zero_grad()
        ...     model(torch.ones(1, 2)).sum().backward()
        ...     optimizer.step()
        >>> len(recorder.trajectory), recorder.trajectory.total_steps
        (4, 20)
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        total_steps: int | None,
        samples: int = 10,
        seed: int = 0,
        sampling: Sampling = "stratified",
        done: int = 0,
        trainable_only: bool = False,
        moments: bool = False,
    ) -> None:
        """Plan which steps are written.

        Args:
            folder: Where the steps are written; it is created.
            total_steps: Number of updates that training will make, or `None` if it is not known.
            samples: Number of steps to write (the paper's K).
            seed: Seed of the draw.
            sampling: One step from each of K equal stretches (`stratified`), or any K steps (`uniform`).
            done: Number of steps that an interrupted run had made before.
            trainable_only: Write only what training changes and leave out the rest, such as a frozen network under an
                adapter; scoring then takes the rest from the network it is given, and checks that it has not changed.
            moments: Also write the optimiser's moments, which optimizer-aware scores need: two more numbers per
                parameter that Adam moves.

        Raises:
            SettingInvalid: `done`, `samples` and `total_steps` contradict each other.
            RunDiffers: The folder holds another run's trajectory.
        """
        self.folder = Path(folder)
        self.total_steps = total_steps
        self.samples = samples
        self.seed = seed
        self.done = done
        self.epoch = 0
        """Epoch of the updates that an attached recorder sees, counted from 0; for a loop that knows it to set."""
        self.trainable_only = trainable_only
        self.moments = moments
        if done < 0 or (total_steps is not None and done > total_steps):
            raise errors.SettingInvalid(
                f"done={done} steps cannot have been made of {total_steps}; it counts those before"
            )
        if total_steps is None:
            if samples < 1:
                raise errors.SettingInvalid(f"{samples} time steps were asked for; at least 1 is needed")
            self.planned = self._lowest(range(1, done + 1))
        else:
            self.planned = set(sample_steps(total_steps, samples, seed, sampling).tolist())
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.glob("step-*.safetensors"):
            if int(path.stem.removeprefix("step-")) not in self.planned:
                raise errors.RunDiffers(
                    f"{self.folder} holds the trajectory of another run ({path.name}); use a new folder"
                )
        self._attachment: Attachment | None = None
        self._attached_once = False
        self._problem: Exception | None = None
        self._unmoved = Unmoved(frozen=trainable_only)
        self._unrecorded: list[str] = []
        self._this_step: dict[Optimizer, _Moves] = {}  # updates of the current step, per attached optimiser
        self._given: WeakSet[Optimizer] = WeakSet()  # the optimisers that `step` was called with
        # A call of `step` comes after the update, possibly after a scheduler, so rates are noted during the update.
        self._unread = Unread()
        finalize(self, self._unread.remove)

    def _lowest(self, steps: Iterable[int]) -> set[int]:
        # Reservoir sampling: the steps with the K lowest hashes are a uniform sample, whenever the run ends.
        candidates = np.array(sorted(steps), dtype=np.uint64)
        order = np.argsort(hashes(candidates, self.seed, "reservoir"), kind="stable")
        return set(candidates[order[: self.samples]].tolist())

    def attach(self, model: nn.Module, *optimizers: Optimizer) -> Attachment:
        """Record every update of these optimisers from now on; the training loop needs no further change.

        One step is a run of updates in which each optimiser makes at most one. If all optimisers step once per batch, a
        step is a batch; if one steps five times for each step of another, these are five steps, and in four of them the
        other's parameters have learning rate 0. An update that moves nothing (no gradients, or an overflow under
        `GradScaler`) does not count. An error of recording is logged and does not end training; `trajectory` raises it.

        Args:
            model: The network, or a wrapper of it (`torch.compile`, data parallelism, accelerate).
            optimizers: All optimisers that move its parameters, or the proxies of accelerate and Lightning around them.
                Parameters in none of them are held fixed when samples are scored.

        Returns:
            A handle with `remove()`, which is also a context manager.

        Raises:
            RecorderMisused: The recorder is already attached, or these are not the optimisers of this model.

        Example:
            >>> import tempfile
            >>> model = nn.Linear(2, 2)
            >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            >>> recorder = Recorder(tempfile.mkdtemp(), total_steps=None, samples=2)
            >>> with recorder.attach(model, optimizer):
            ...     model(torch.ones(1, 2)).sum().backward()
            ...     optimizer.step()
            >>> recorder.trajectory[0].groups
            (('weight', 'bias'),)
        """
        if self._attachment is not None:
            raise errors.RecorderMisused(
                "this recorder is attached already; call remove() on the object that attach returned first"
            )
        network, found = recordable_network(model), [inner_optimizer(optimizer) for optimizer in optimizers]
        check_optimizers(network, found)
        for optimizer in found if self.moments else ():
            check_known(optimizer)
        self._unread.remove()
        self._attached_once = True
        self._this_step = {}
        self._unmoved.look(network, parameters_of(found))
        self._attachment = Attachment(self, network, found)
        return self._attachment

    def step(self, model: nn.Module, optimizer: Optimizer, epoch: int = 0) -> None:
        """Record the update that the optimiser has made since the last call; without an update, do nothing.

        The recorder must exist before the first update, in which it notes the rate: a scheduler may run before `step`.

        Raises:
            RecorderMisused: There were several updates since the last call, or the recorder was attached.
            TrajectoryIncomplete: There were more than `total_steps` updates.
        """
        if self._attached_once:
            raise errors.RecorderMisused(
                "this recorder was attached and sees every update itself; take Recorder.step out of the loop, and "
                "after remove() attach it again"
            )
        network, inner = recordable_network(model), inner_optimizer(optimizer)
        updates, rates = self._unread.take(inner)
        if inner not in self._given:
            check_optimizers(network, [inner])
            missed = self._unread.missed(inner)
            if missed and self.done == 0:
                raise errors.RecorderMisused(
                    "the optimiser made updates before this recorder was made, so the rate of its last update is "
                    "unknown; make the Recorder before training, or call recorder.attach(model, optimizer) then"
                )
            if not updates:
                # A resumed run's optimiser holds state of earlier updates, so this is a warning and not an error.
                _log.log(
                    logging.WARNING if missed else logging.INFO,
                    "Recorder.step saw no update of this %s so far, so no step is recorded: gradients accumulate, a "
                    "gradient scaler skipped the step, or it was made before the recorder",
                    type(inner).__name__,
                )
            self._given.add(inner)
        if not updates:
            return
        if updates > 1:
            raise errors.RecorderMisused(
                f"Recorder.step must be called once after every optimizer.step(), but the optimiser made "
                f"{updates} updates since step {self.done}; recorder.attach(model, optimizer) needs no call"
            )
        self._begin()
        if self._too_long():
            raise errors.TrajectoryIncomplete(f"step {self.done} was made of a run that was to have {self.total_steps}")
        # A parameter group added after the update has no rate yet, so `zip` drops it.
        moves = [(rate, moving(group)) for rate, group in zip(rates, inner.param_groups, strict=False)]
        self._write(network, moves, [inner], epoch)

    def updated(
        self,
        model: nn.Module,
        moves: Sequence[tuple[float, Sequence[nn.Parameter]]],
        step: int,
        epoch: int = 0,
        moments: Callable[[], Moments] | None = None,
    ) -> None:
        """Record update `step`, counted from 1, of a training loop that does not use `torch.optim`.

        Args:
            model: The network after the update.
            moves: Learning rate and parameters of every group that the update moved.
            step: Number of the update; a resumed run may begin with any.
            epoch: Epoch, counted from 0.
            moments: Returns the moments of the optimiser after the update; called if they are to be written.
        """
        self.done = step
        if step not in self.planned:
            return  # asked first: walking through all modules costs as much as an update of a small network
        if self.moments and moments is not None:
            write_moments(moments_path(point_path(self.folder, step)), moments())
        recorded = {id(one) for _, parameters in moves for one in parameters}
        self._write_point(recordable_network(model), [(rate, list(own)) for rate, own in moves], recorded, epoch)

    def _updated(self, optimizer: Optimizer, again: bool) -> None:
        """Handle an update of an attached optimiser."""
        if self._problem is not None or self._attachment is None:
            return
        try:
            # A class whose `step` calls its parent's ends its update twice; the second end overwrites the first.
            if not again and (not self._this_step or optimizer in self._this_step):
                self._this_step = {}
                self._begin()
                if self._too_long():
                    raise errors.RecorderMisused(self._overrun())
            rates, groups = learning_rates(optimizer), optimizer.param_groups
            self._this_step[optimizer] = [(rate, moving(group)) for rate, group in zip(rates, groups, strict=True)]
            self._write(self._attachment.model, self._moves(), self._attachment.optimizers, self.epoch)
        except Exception as problem:  # noqa: BLE001 - an error of recording must not end a training
            self._problem = problem
            _log.warning("nothing more is recorded, and training goes on: %s", problem)

    def _moves(self) -> _Moves:
        """Return all parameter groups of all attached optimisers; groups that did not move in this step have rate 0."""
        assert self._attachment is not None
        moves: _Moves = []
        for optimizer in self._attachment.optimizers:
            still = [(0.0, list(group["params"])) for group in optimizer.param_groups]
            moves += self._this_step.get(optimizer, still)
        return moves

    def _begin(self) -> None:
        """Count a step, and decide whether it is kept."""
        self.done += 1
        if self.total_steps is None:
            kept = self._lowest(self.planned | {self.done})
            for dropped in self.planned - kept:
                remove_point(self.folder, dropped)
            self.planned = kept

    def _too_long(self) -> bool:
        return self.total_steps is not None and self.done > self.total_steps

    def _overrun(self) -> str:
        return (
            f"training made more than the {self.total_steps} steps that the recorder was told of, so those it has are "
            f"not a sample of the whole run; give total_steps=None where their number is not certain"
        )

    def _write(self, network: nn.Module, moves: _Moves, optimizers: Sequence[Optimizer], epoch: int) -> None:
        if self.done not in self.planned:
            return
        if self.moments:  # before the point, so that a point on disk has its moments
            names = {id(parameter): uncompiled_name(name) for name, parameter in network.named_parameters()}
            write_moments(moments_path(point_path(self.folder, self.done)), moments_by_id(optimizers, names))
        self._write_point(network, moves, parameters_of(optimizers), epoch)

    def _write_point(self, network: nn.Module, moves: _Moves, recorded: set[int], epoch: int) -> None:
        names = {id(parameter): uncompiled_name(name) for name, parameter in network.named_parameters()}
        groups = [(rate, [names[id(one)] for one in moved if id(one) in names]) for rate, moved in moves]
        groups = [(rate, moved) for rate, moved in groups if moved]
        if not groups:
            raise errors.RecorderMisused(
                f"at step {self.done} the optimiser moved no parameter of the model that it was attached to"
            )
        same, changed = self._unmoved.look(network, recorded)
        if changed and not self._unrecorded:
            _log.warning(
                "%s changes, but no recorded optimiser moves it: this trajectory cannot be scored; "
                "record with attach(model, first_optimizer, second_optimizer), all optimisers at once",
                changed[0],
            )
        self._unrecorded += [name for name in changed if name not in self._unrecorded]
        note: dict[str, Any] = {
            "format": 1,
            "step": self.done,
            "epoch": epoch,
            "total_steps": self.total_steps,
            "learning_rates": [rate for rate, _ in groups],
            "groups": [moved for _, moved in groups],
        }
        if self._unrecorded:
            note["unrecorded"] = list(self._unrecorded)
        omitted = same if self.trainable_only else {}
        if omitted:
            note["omitted"] = omitted
        # Tied weights: if the first name of a parameter is omitted, so are its other names.
        left_out = {name for name, one in network.named_parameters(remove_duplicate=False) if names[id(one)] in omitted}
        state = {
            uncompiled_name(name): value
            for name, value in network.state_dict().items()
            if isinstance(value, torch.Tensor) and name not in left_out
        }
        write_state(point_path(self.folder, self.done), state, note)

    @property
    def trajectory(self) -> Trajectory:
        """The trajectory recorded so far.

        Raises:
            TrajectoryIncomplete: Sampled steps are missing.
            RecorderMisused: An error occurred while recording, or there were more than `total_steps` updates.
        """
        if self._problem is not None:
            what = "" if isinstance(self._problem, MosoError) else f"step {self.done} could not be recorded: "
            raise errors.RecorderMisused(f"{what}{self._problem}") from self._problem
        if self.total_steps is None:
            write_record(self.folder / "total.json", {"total_steps": self.done})
            return Trajectory.open(self.folder, self.done)
        if self._too_long():
            raise errors.RecorderMisused(self._overrun())
        missing = [step for step in sorted(self.planned) if not point_path(self.folder, step).exists()]
        if missing:
            raise errors.TrajectoryIncomplete(
                f"training stopped after {self.done} of {self.total_steps} steps: "
                f"sampled step {missing[0]} was never reached; give total_steps=None if the number of updates is "
                "not known (updates that a gradient scaler skips do not count), or open what was recorded with "
                f"moso.Trajectory.open(folder, total_steps={self.done})"
            )
        return Trajectory.open(self.folder)
