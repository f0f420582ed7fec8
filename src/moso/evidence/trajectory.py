"""The trajectory: what the surrogate's parameters and learning rates were at the sampled steps.

Step `t` is the parameters **after** update `t` together with the rate **of** update `t`. On disk a point is
one safetensors file that says itself what it is; no pickle is ever involved.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from moso import errors
from moso.files import replacing

State = dict[str, torch.Tensor]
_METADATA = "moso"  # one key: safetensors does not promise the order of several, and bytes must repeat


@dataclass(frozen=True)
class TrajectoryPoint:
    """One sampled step: its number, its rates, and where its state is.

    `groups` are the names of the parameters that move at each of the rates; parameters in none of them did not move and
    are held fixed. Without `groups` all trainable parameters move at the one rate. `omitted` are the parameters that
    were left out of the state because training did not change them, each with its `fingerprint`. `unrecorded` are
    parameters that did change although no recorded optimiser moves them: such a step cannot be scored.
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
        """The rate of this update, where all parameters share one."""
        if len(self.learning_rates) != 1:
            raise errors.RecorderMisused(
                f"step {self.step} has {len(self.learning_rates)} learning rates; read learning_rates"
            )
        return self.learning_rates[0]

    def state(self) -> State:
        """Parameters and buffers, by name."""
        if self.memory is not None:
            return self.memory
        assert self.path is not None
        return read_state(self.path)[0]

    def load_into(self, model: nn.Module) -> None:
        """Give the model this point's parameters and buffers."""
        model.load_state_dict(self.fitted_to(model).state(), strict=False)

    def fitted_to(self, model: nn.Module) -> "TrajectoryPoint":
        """The same point, its state in memory and by the network's own names.

        The network may be the bare one where training had it in wrappers. The state need not be whole: parameters that
        do not move, and buffers beside them, are the network's own where the state has none.

        Raises:
            MosoError: The state is not one of this network, or not all that training changed is recorded.

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
        """Refuse a step at which parameters had changed that no recorded optimiser moves."""
        if self.unrecorded:
            more = f" (and {len(self.unrecorded) - 1} more)" if len(self.unrecorded) > 1 else ""
            raise errors.TrajectoryIncomplete(
                f"{self.unrecorded[0]}{more} had changed by step {self.step}, but no recorded optimiser moves it: "
                "record with attach(model, first_optimizer, second_optimizer), all optimisers at once"
            )


class Trajectory(Sequence[TrajectoryPoint]):
    """The sampled points of one training run of `total_steps` updates.

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
        """Somebody's own checkpoints, `(state_dict, learning_rate)` each.

        Without `total_steps` the checkpoints are taken to be all steps there were.
        """
        points = [
            TrajectoryPoint(step, (float(rate),), memory=dict(state)) for step, (state, rate) in enumerate(states, 1)
        ]
        return cls(points, len(points) if total_steps is None else total_steps)

    @classmethod
    def open(cls, folder: Path | str, total_steps: int | None = None) -> "Trajectory":
        """The trajectory a `Recorder` left in `folder`."""
        points, totals = [], set()
        for path in sorted(Path(folder).glob("step-*.safetensors")):
            with _opened(path) as file:
                note = _note(file, path)
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
        if not points:
            raise errors.FileMissing(f"there is no trajectory in {folder}")
        total = total_steps if total_steps is not None else max(totals, key=lambda value: value or 0)
        if total is None:
            total = json.loads((Path(folder) / "total.json").read_text())["total_steps"]
        return cls(points, total)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, number: Any) -> Any:
        return self.points[number]

    def __iter__(self) -> Iterator[TrajectoryPoint]:
        return iter(self.points)


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as problem:
        raise errors.FileUnreadable(f"{path} is not a readable safetensors file: {problem}") from problem


def _note(file: Any, path: Path) -> dict[str, Any]:
    try:
        note: dict[str, Any] = json.loads((file.metadata() or {})[_METADATA])
    except (KeyError, ValueError) as problem:
        raise errors.FileUnreadable(f"{path} was not written by moso: it has no step in its metadata") from problem
    return note


def read_state(path: Path) -> tuple[State, dict[str, Any]]:
    """The tensors and the note of a state file."""
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}, _note(file, path)  # noqa: SIM118


def write_state(path: Path, state: Mapping[str, torch.Tensor], note: Mapping[str, Any]) -> None:
    """Write tensors and a note about them, atomically; the same content gives the same bytes."""
    # Clones, because tied weights share memory and safetensors refuses that.
    tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in state.items()}
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata={_METADATA: json.dumps(note)})


def point_path(folder: Path, step: int) -> Path:
    """Where the point of a step is kept."""
    return folder / f"step-{step:08d}.safetensors"


def check_fits(model: nn.Module, state: Mapping[str, torch.Tensor], what: str) -> None:
    """Refuse a state whose names or shapes are not the model's."""
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in state.items()}
    for name in [*expected, *found]:
        if expected.get(name) != found.get(name):
            raise errors.CheckpointMismatch(
                f"{what} does not fit the network: {name} is {found.get(name, 'missing')} there and "
                f"{expected.get(name, 'missing')} in the network"
            )


def fingerprint(tensor: torch.Tensor) -> str:
    """A hash of every bit of a tensor.

    >>> fingerprint(torch.zeros(2)) == fingerprint(torch.tensor([0.0, 1e-30]))
    False
    """
    bits = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
    return hashlib.blake2b(bits.numpy().data, digest_size=16).hexdigest()


def as_network(model: nn.Module) -> nn.Module:
    """The network out of the wrappers that training puts around it: compiled, or spread over processes or devices.

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
    """A parameter's name without the mark of `torch.compile`, which may be on any of its modules.

    >>> uncompiled_name("encoder._orig_mod.weight")
    'encoder.weight'
    """
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


def plain_name(name: str, adapters: Iterable[str] = ()) -> str:
    """A parameter's name without what wrappers and adapters put into it.

    `module.` is of (distributed) data parallelism, `_orig_mod.` of `torch.compile`, `base_model.model.` of peft; in its
    files peft also leaves out the adapter's own name.

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
    """The names of a network's tensors, and how to find them under others."""

    tensors: dict[str, torch.Tensor]  # what a state_dict holds, one parameter under two names twice
    plain: dict[str, str]
    first: dict[str, str]  # of a parameter with several names, the one that named_parameters has
    adapters: tuple[str, ...]

    @classmethod
    def of(cls, model: nn.Module) -> "_Names":
        tensors = {name: value for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}
        # Layers of peft tell so; a network of transformers has a method of that name, which is something else.
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
        """The network's own name, or the same where the network has nothing of the kind."""
        if name not in self.tensors:
            # A module may have the name of an adapter: what fits without taking it out is left as it is.
            plain = plain_name(name)
            name = self.plain.get(plain) or self.plain.get(plain_name(plain, self.adapters), name)
        return self.first.get(name, name)

    def tensor(self, name: str, what: str) -> torch.Tensor:
        """A tensor of the network."""
        if name not in self.tensors:
            raise errors.CheckpointMismatch(
                f"{what} does not fit the network: it speaks of {name}, which the network does not have"
            )
        return self.tensors[name]


def _fitted(
    model: nn.Module, names: _Names, state: Mapping[str, torch.Tensor], moved: set[str] | None, what: str
) -> State:
    """The state by the network's names; refused where it is another network's, or lacks what training changed."""
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
    # Frozen parameters are what they are. Buffers change with the parameters beside them: batch-norm's statistics do.
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
