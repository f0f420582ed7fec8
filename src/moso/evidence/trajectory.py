"""The trajectory: the surrogate's parameters and learning rates at the sampled steps.

Step `t` pairs the parameters **after** update `t` with the learning rate **of** update `t`. On disk a point is one
safetensors file with a description of itself in its metadata; no file is ever unpickled.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from moso import errors
from moso.checksums import damaged
from moso.evidence.state_files import State, opened_state, read_state, state_note
from moso.files import read_record


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
    """

    step: int
    learning_rates: tuple[float, ...]
    groups: tuple[tuple[str, ...], ...] = ()
    epoch: int = 0
    path: Path | None = None
    memory: State | None = None
    omitted: Mapping[str, str] = field(default_factory=dict)
    unrecorded: tuple[str, ...] = ()

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
        names = _Names.of(model)
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
    def from_states(
        cls, states: Iterable[tuple[Mapping[str, torch.Tensor], float]], total_steps: int | None = None
    ) -> "Trajectory":
        """Build a trajectory from the user's own checkpoints.

        Args:
            states: One `(state_dict, learning_rate)` per checkpoint, in the order of training.
            total_steps: Number of updates of the run; by default the number of checkpoints.
        """
        points = [
            TrajectoryPoint(step, (float(rate),), memory=dict(state)) for step, (state, rate) in enumerate(states, 1)
        ]
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

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, number: Any) -> Any:
        return self.points[number]

    def __iter__(self) -> Iterator[TrajectoryPoint]:
        return iter(self.points)


def point_path(folder: Path, step: int) -> Path:
    """Return where the point of a step is kept."""
    return folder / f"step-{step:08d}.safetensors"


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


def as_network(model: nn.Module) -> nn.Module:
    """Return the network inside the wrappers of training: `torch.compile` and (distributed) data parallelism.

    Example:
        >>> network = nn.Linear(1, 1)
        >>> as_network(nn.DataParallel(network)) is network
        True
    """
    parallel = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    while True:
        inner = model.module if isinstance(model, parallel) else getattr(model, "_orig_mod", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def uncompiled_name(name: str) -> str:
    """Return a parameter's name without the prefix of `torch.compile`, which may be on any of its modules.

    Example:
        >>> uncompiled_name("encoder._orig_mod.weight")
        'encoder.weight'
    """
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


def plain_name(name: str, adapters: Iterable[str] = ()) -> str:
    """Return a parameter's name without the parts that wrappers and adapters insert.

    `module.` is inserted by (distributed) data parallelism, `_orig_mod.` by `torch.compile`, `base_model.model.` by
    peft; peft also leaves the adapter's own name out of its files.

    Example:
        >>> plain_name("module._orig_mod.encoder.0.weight")
        'encoder.0.weight'
        >>> plain_name("base_model.model.query.lora_A.default.weight", ["default"])
        'query.lora_A.weight'
    """
    parts = uncompiled_name(name).split(".")
    while len(parts) > 1 and parts[0] == "module":
        parts = parts[1:]
    if parts[:2] == ["base_model", "model"] and len(parts) > 2:
        parts = parts[2:]
    for adapter in adapters:
        if adapter in parts[1:]:
            last = len(parts) - 1 - parts[::-1].index(adapter)
            parts = parts[: last - (parts[last - 1] == "modules_to_save")] + parts[last + 1 :]
            if parts[-2:] == ["lora_magnitude_vector", "weight"]:
                parts = parts[:-1]
    return ".".join(parts)


@dataclass(frozen=True)
class _Names:
    """The names of a network's tensors, and a lookup from other spellings of them."""

    tensors: dict[str, torch.Tensor]  # the entries of the state_dict; a tied parameter has two
    plain: dict[str, str]
    first: dict[str, str]  # name in the state_dict -> the name that named_parameters has for the same parameter
    adapters: tuple[str, ...]

    @classmethod
    def of(cls, model: nn.Module) -> "_Names":
        tensors = {name: value for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}
        # Layers of peft have this property; networks of transformers have an unrelated method of the same name.
        adapted = [one for one in model.modules() if isinstance(getattr(type(one), "active_adapters", None), property)]
        adapters = tuple(sorted({adapter for one in adapted for adapter in cast(list[str], one.active_adapters)}))
        plain: dict[str, str] = {}
        twice = set()
        for name in tensors:
            other = plain.setdefault(plain_name(name, adapters), name)
            if other != name:
                twice.add(plain_name(name, adapters))
        named = {id(value): name for name, value in model.named_parameters()}
        every = model.named_parameters(remove_duplicate=False)
        first = {name: name for name in tensors} | {name: named[id(value)] for name, value in every}
        return cls(tensors, {name: own for name, own in plain.items() if name not in twice}, first, adapters)

    def own(self, name: str) -> str:
        """Return the network's own name for a tensor, or `name` itself if the network has no such tensor."""
        if name not in self.tensors:
            # A module may happen to have the name of an adapter, so the adapter's name is stripped only if nothing else
            # fits.
            plain = plain_name(name)
            name = self.plain.get(plain) or self.plain.get(plain_name(plain, self.adapters), name)
        return self.first.get(name, name)

    def tensor(self, name: str, what: str) -> torch.Tensor:
        """Return a tensor of the network."""
        if name not in self.tensors:
            raise errors.CheckpointMismatch(
                f"{what} does not fit the network: it names {name}, which the network does not have"
            )
        return self.tensors[name]


def _fitted(
    model: nn.Module, names: _Names, state: Mapping[str, torch.Tensor], moved: set[str] | None, what: str
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
