"""The trajectory: what the surrogate's parameters and learning rates were at the sampled steps.

Step `t` is the parameters **after** update `t` together with the rate **of** update `t`. On disk a point is
one safetensors file that says itself what it is; no pickle is ever involved.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from moso.errors import MosoError
from moso.files import replacing

State = dict[str, torch.Tensor]
_METADATA = "moso"  # one key: safetensors does not promise the order of several, and bytes must repeat


@dataclass(frozen=True)
class TrajectoryPoint:
    """One sampled step: its number, its rates, and where its state is.

    `groups` are the parameter names of each of the optimiser's groups; empty where there is one group.
    """

    step: int
    learning_rates: tuple[float, ...]
    groups: tuple[tuple[str, ...], ...] = ()
    epoch: int = 0
    path: Path | None = None
    memory: State | None = None

    @property
    def learning_rate(self) -> float:
        """The rate of this update, where all parameters share one."""
        if len(self.learning_rates) != 1:
            raise MosoError(f"step {self.step} has {len(self.learning_rates)} learning rates; read learning_rates")
        return self.learning_rates[0]

    def state(self) -> State:
        """Parameters and buffers, by name."""
        if self.memory is not None:
            return self.memory
        assert self.path is not None
        return read_state(self.path)[0]

    def load_into(self, model: nn.Module) -> None:
        """Give the model this point's parameters and buffers."""
        state = self.state()
        check_fits(model, state, f"step {self.step} of the trajectory")
        model.load_state_dict(state)


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
            raise MosoError("the trajectory is empty: no time step was recorded")

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
            groups = tuple(tuple(names) for names in note.get("groups", ()))
            points.append(TrajectoryPoint(note["step"], tuple(note["learning_rates"]), groups, note["epoch"], path))
            totals.add(note["total_steps"])
        if not points:
            raise MosoError(f"there is no trajectory in {folder}")
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
        raise MosoError(f"{path} is not a readable safetensors file: {problem}") from problem


def _note(file: Any, path: Path) -> dict[str, Any]:
    try:
        note: dict[str, Any] = json.loads((file.metadata() or {})[_METADATA])
    except (KeyError, ValueError) as problem:
        raise MosoError(f"{path} was not written by moso: it has no step in its metadata") from problem
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
            raise MosoError(
                f"{what} does not fit the network: {name} is {found.get(name, 'missing')} there and "
                f"{expected.get(name, 'missing')} in the network"
            )
