"""The trajectory: the surrogate's parameters and learning rates at the sampled steps.

Step `t` pairs the parameters **after** update `t` with the learning rate **of** update `t`. On disk a point is one
safetensors file with a description of itself in its metadata; no file is ever unpickled.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from moso import errors
from moso.checksums import damaged
from moso.evidence.moments import Moments, moments_path, read_moments
from moso.evidence.network_names import NetworkNames
from moso.evidence.state_files import State, opened_state, read_state, state_note
from moso.files import read_record

# A checkpoint of the user's: a state, the learning rate of its update and, perhaps, the optimiser's moments after it.
Checkpoint = tuple[Mapping[str, torch.Tensor], float] | tuple[Mapping[str, torch.Tensor], float, Moments]


@dataclass(frozen=True)
class TrajectoryPoint:
    """One sampled step: its number, its learning rates, and where its state is.

    Attributes:
        step: Number of the update, counted from 1.
        learning_rates: One learning rate per parameter group.
        groups: Names of the parameters per learning rate; parameters in no group did not move and are held fixed.
            Without groups all trainable parameters move at the one rate.
        epoch: Epoch of the update, counted from 0.
        path: File of the state, unless it is in memory.
        memory: The state, if it is in memory.
        omitted: Parameters that were left out of the state because training did not change them, each with its
            `fingerprint`.
        unrecorded: Parameters that changed although no recorded optimiser moves them; such a step cannot be scored.
        moments: Moments of the optimiser after this update, or the file that holds them, if they were recorded.
        is_preconditioned: Whether gradients at this step are compared as the optimiser rescales them.
    """

    step: int
    learning_rates: tuple[float, ...]
    groups: tuple[tuple[str, ...], ...] = ()
    epoch: int = 0
    path: Path | None = None
    memory: State | None = None
    omitted: Mapping[str, str] = field(default_factory=dict)
    unrecorded: tuple[str, ...] = ()
    moments: Moments | Path | None = None
    is_preconditioned: bool = False

    @property
    def learning_rate(self) -> float:
        """The learning rate of this update, if all parameters share one.

        Raises:
            RecorderMisused: The parameter groups have several learning rates.
        """
        if len(self.learning_rates) != 1:
            raise errors.RecorderMisused(
                f"step {self.step} has {len(self.learning_rates)} learning rates; read learning_rates"
            )
        return self.learning_rates[0]

    def state(self) -> State:
        """Return parameters and buffers by name."""
        if self.memory is not None:
            return self.memory
        assert self.path is not None
        return read_state(self.path)[0]

    def load_into(self, model: nn.Module) -> None:
        """Load this point's parameters and buffers into the model."""
        model.load_state_dict(self.fitted_to(model).state(), strict=False)

    def fitted_to(self, model: nn.Module) -> "TrajectoryPoint":
        """Return the same point with its state in memory and under the network's own names.

        The network may be the bare one even if training wrapped it. The state may be partial: parameters that do not
        move, and the buffers beside them, are the network's own if the state lacks them.

        Raises:
            CheckpointMismatch: The state does not fit this network.
            TrajectoryIncomplete: No recorded optimiser moves a parameter that had changed by this step.

        Example:
            >>> network = nn.Linear(2, 2)
            >>> state = {f"module.{name}": value for name, value in network.state_dict().items()}
            >>> sorted(TrajectoryPoint(1, (0.1,), memory=state).fitted_to(network).state())
            ['bias', 'weight']
        """
        what = f"step {self.step} of the trajectory"
        self.check_recorded()
        names = NetworkNames.of(model)
        groups = tuple(tuple(names.own(name) for name in group) for group in self.groups)
        moved = {name for group in groups for name in group} if groups else None
        state = _fitted(model, names, self.state(), moved, what)
        for name, expected in self.omitted.items():
            own = names.own(name)
            if own not in state and fingerprint(names.tensor(own, what)) != expected:
                raise errors.CheckpointMismatch(
                    f"{what} holds only what training moved, and {own} of the network is another than that of "
                    "training; give the network the weights that training started from"
                )
        return replace(self, groups=groups, path=None, memory=state, omitted={})

    def moments_for(self, model: nn.Module) -> Moments:
        """Return the moments of the optimiser after this update, under the network's own names.

        Raises:
            TrajectoryIncomplete: They were not recorded.
            CheckpointMismatch: They are those of another network.
        """
        given = self.check_moments()
        moments = read_moments(given) if isinstance(given, Path) else given
        names = NetworkNames.of(model)
        own = {name: names.own(name) for name in moments.rules}
        what = f"the moments of step {self.step}"
        for name, second in moments.second.items():
            if second.shape != names.tensor(own[name], what).shape:
                raise errors.CheckpointMismatch(f"{what} do not fit the network: {own[name]} has another shape there")
        return moments.renamed(own)

    def check_moments(self) -> Moments | Path:
        """Return the moments, or the file that holds them.

        Raises:
            TrajectoryIncomplete: They were not recorded.
        """
        if self.moments is None:
            raise errors.TrajectoryIncomplete(
                f"step {self.step} was recorded without the optimiser's moments, which optimizer-aware scores need; "
                "record with moments=True, or give checkpoints as (state_dict, learning_rate, moments)"
            )
        return self.moments

    def check_recorded(self) -> None:
        """Refuse a step by which a parameter had changed that no recorded optimiser moves.

        Raises:
            TrajectoryIncomplete: There is such a parameter.
        """
        if self.unrecorded:
            more = f" (and {len(self.unrecorded) - 1} more)" if len(self.unrecorded) > 1 else ""
            raise errors.TrajectoryIncomplete(
                f"{self.unrecorded[0]}{more} had changed by step {self.step}, but no recorded optimiser moves it: "
                "record with attach(model, first_optimizer, second_optimizer), all optimisers at once"
            )


class Trajectory(Sequence[TrajectoryPoint]):
    """The sampled points of one training run of `total_steps` updates.

    Raises:
        TrajectoryIncomplete: There are no points.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> trajectory = Trajectory.from_states([(model.state_dict(), 0.1)], total_steps=50)
        >>> trajectory.total_steps, trajectory[0].learning_rate
        (50, 0.1)
    """

    def __init__(self, points: Iterable[TrajectoryPoint], total_steps: int) -> None:
        self.points = tuple(sorted(points, key=lambda point: point.step))
        self.total_steps = total_steps
        if not self.points:
            raise errors.TrajectoryIncomplete("the trajectory is empty: no time step was recorded")

    @classmethod
    def from_states(cls, states: Iterable[Checkpoint], total_steps: int | None = None) -> "Trajectory":
        """Build a trajectory from the user's own checkpoints.

        Args:
            states: One `(state_dict, learning_rate)` or `(state_dict, learning_rate, moments)` per checkpoint, in the
                order of training.
            total_steps: Number of updates of the run; by default the number of checkpoints.
        """
        points = []
        for step, (state, rate, *rest) in enumerate(states, 1):
            moments = rest[0] if rest else None
            points.append(TrajectoryPoint(step, (float(rate),), memory=dict(state), moments=moments))
        return cls(points, len(points) if total_steps is None else total_steps)

    @classmethod
    def open(cls, folder: Path | str, total_steps: int | None = None) -> "Trajectory":
        """Open the trajectory that a `Recorder` left in `folder`.

        Args:
            folder: The recorder's folder.
            total_steps: Number of updates of the run; by default the recorded number.

        Raises:
            FileMissing: The folder holds no trajectory.
            FileUnreadable: A file is damaged or was not written by moso.
        """
        points, totals = [], set()
        for path in sorted(Path(folder).glob("step-*.safetensors")):
            with opened_state(path) as file:
                note = state_note(file, path)
            try:
                points.append(
                    TrajectoryPoint(
                        note["step"],
                        tuple(note["learning_rates"]),
                        tuple(tuple(names) for names in note.get("groups", ())),
                        note["epoch"],
                        path,
                        omitted=note.get("omitted", {}),
                        unrecorded=tuple(note.get("unrecorded", ())),
                        moments=moments if (moments := moments_path(path)).exists() else None,
                    )
                )
                totals.add(note["total_steps"])
            except (KeyError, TypeError) as problem:
                raise damaged(path, f"it does not say which step it is: {problem}") from problem
        if not points:
            raise errors.FileMissing(f"there is no trajectory in {folder}")
        total = total_steps if total_steps is not None else max(totals, key=lambda value: value or 0)
        if total is None:
            total = read_record(Path(folder) / "total.json")["total_steps"]
        return cls(points, total)

    def optimizer_aware(self) -> "Trajectory":
        """Return the same trajectory with gradients compared as the optimiser rescales them (docs/optimizer-aware.md).

        Raises:
            TrajectoryIncomplete: A step was recorded without the optimiser's moments.

        Example:
            >>> model = nn.Linear(2, 2)
            >>> plain = Trajectory.from_states([(model.state_dict(), 0.1, Moments())])
            >>> plain.optimizer_aware()[0].is_preconditioned
            True
        """
        for point in self.points:
            point.check_moments()
        return Trajectory([replace(point, is_preconditioned=True) for point in self.points], self.total_steps)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, number: Any) -> Any:
        return self.points[number]

    def __iter__(self) -> Iterator[TrajectoryPoint]:
        return iter(self.points)


def point_path(folder: Path, step: int) -> Path:
    """Return where the point of a step is kept."""
    return folder / f"step-{step:08d}.safetensors"


def remove_point(folder: Path, step: int) -> None:
    """Remove the point of a step and its moments, if they are there."""
    path = point_path(folder, step)
    path.unlink(missing_ok=True)
    moments_path(path).unlink(missing_ok=True)


def check_fits(model: nn.Module, state: Mapping[str, torch.Tensor], what: str) -> None:
    """Refuse a state whose names or shapes are not the model's; `what` names the state in the error.

    Raises:
        CheckpointMismatch: With the first tensor that differs.
    """
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in state.items()}
    for name in [*expected, *found]:
        if expected.get(name) != found.get(name):
            raise errors.CheckpointMismatch(
                f"{what} does not fit the network: {name} is {found.get(name, 'missing')} there and "
                f"{expected.get(name, 'missing')} in the network"
            )


def fingerprint(tensor: torch.Tensor) -> str:
    """Return a hash of every bit of a tensor.

    Example:
        >>> fingerprint(torch.zeros(2)) == fingerprint(torch.tensor([0.0, 1e-30]))
        False
    """
    bits = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
    return hashlib.blake2b(bits.numpy().data, digest_size=16).hexdigest()


def _fitted(
    model: nn.Module, names: NetworkNames, state: Mapping[str, torch.Tensor], moved: set[str] | None, what: str
) -> State:
    """Return the state under the network's names; refuse one that does not fit or lacks what training changed."""
    found: State = {}
    for name, value in state.items():
        own = names.own(name)
        if own in found and fingerprint(found[own]) != fingerprint(value):
            raise errors.CheckpointMismatch(f"{what} does not fit the network: it has two values for {own}")
        if own in names.tensors and value.shape != names.tensors[own].shape:
            raise errors.CheckpointMismatch(
                f"{what} does not fit the network: {own} is {tuple(value.shape)} there and "
                f"{tuple(names.tensors[own].shape)} in the network"
            )
        found[own] = value
    strange = [name for name in found if name not in names.tensors]
    parameters = dict(model.named_parameters())
    trained = {name for name, value in parameters.items() if (value.requires_grad if moved is None else name in moved)}
    missing = [name for name in parameters if name in trained and name not in found]
    # Frozen parameters may be missing. Buffers change with the parameters of their module, as batch-norm's statistics
    # do.
    homes = {name.rpartition(".")[0] for name in trained}
    whole = found.keys() >= parameters.keys()
    missing += [
        name
        for name, first in names.first.items()
        if first not in {*found, *parameters} and (whole or name.rpartition(".")[0] in homes)
    ]
    if missing or strange:
        lacks = f"it lacks {_listed(missing)}" if missing else ""
        has = f"it has {_listed(strange)}, which the network does not have" if strange else ""
        raise errors.CheckpointMismatch(f"{what} does not fit the network: {' and '.join(filter(None, (lacks, has)))}")
    return found


def _listed(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
