"""The recorder: three lines in anybody's own training loop leave a trajectory that can be scored."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from moso.errors import MosoError
from moso.evidence.steps import Sampling, sample_steps
from moso.evidence.trajectory import Trajectory, point_path, write_state
from moso.files import write_json
from moso.randomness import hashes


class Recorder:
    """Writes the sampled steps of a training run, and only those.

    Call `step` after every `optimizer.step()`, before the scheduler's, so that the rate is that of the update
    just made (from the second step on the optimiser itself is watched, and a scheduler stepped too early does
    no harm). With `total_steps=None` a uniform sample is kept of however many steps there will be.

    >>> import tempfile
    >>> model = nn.Linear(2, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> recorder = Recorder(tempfile.mkdtemp(), total_steps=20, samples=4, seed=0)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     model(torch.ones(1, 2)).sum().backward()
    ...     optimizer.step()
    ...     recorder.step(model, optimizer)
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
    ) -> None:
        """`done` is how many steps an interrupted run had made before; `folder` is created."""
        self.folder = Path(folder)
        self.total_steps = total_steps
        self.samples = samples
        self.seed = seed
        self.done = done
        self._watched: torch.optim.Optimizer | None = None
        self._rates: list[list[float]] = []  # of each update since the last call
        if total_steps is None:
            if samples < 1:
                raise MosoError(f"{samples} time steps were asked for; at least 1 is needed")
            self.planned = self._lowest(range(1, done + 1))
        else:
            self.planned = set(sample_steps(total_steps, samples, seed, sampling).tolist())
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.glob("step-*.safetensors"):
            if int(path.stem.removeprefix("step-")) not in self.planned:
                raise MosoError(f"{self.folder} holds the trajectory of another run ({path.name}); use a new folder")

    def _lowest(self, steps: Iterable[int]) -> set[int]:
        # The steps with the K lowest hashes are a uniform sample of all steps, whenever the run ends.
        candidates = np.array(sorted(steps), dtype=np.uint64)
        order = np.argsort(hashes(candidates, self.seed, "reservoir"), kind="stable")
        return set(candidates[order[: self.samples]].tolist())

    def step(self, model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int = 0) -> None:
        """Note that the optimiser has made one more update."""
        rates = self._rates_of_update(optimizer)
        self.done += 1
        if self.total_steps is None:
            kept = self._lowest(self.planned | {self.done})
            for dropped in self.planned - kept:
                point_path(self.folder, dropped).unlink(missing_ok=True)
            self.planned = kept
        elif self.done > self.total_steps:
            raise MosoError(f"step {self.done} was made of a run that was to have {self.total_steps}")
        if self.done in self.planned:
            self._write(model, optimizer, rates, epoch)

    def _rates_of_update(self, optimizer: torch.optim.Optimizer) -> list[float]:
        if optimizer is not self._watched:
            self._watched = optimizer
            optimizer.register_step_post_hook(lambda stepped, *_: self._rates.append(_current_rates(stepped)))
            return _current_rates(optimizer)
        if len(self._rates) != 1:
            raise MosoError(
                f"Recorder.step must be called once after every optimizer.step(), but the optimiser made "
                f"{len(self._rates)} updates since step {self.done}"
            )
        return self._rates.pop()

    def _write(self, model: nn.Module, optimizer: torch.optim.Optimizer, rates: list[float], epoch: int) -> None:
        note: dict[str, Any] = {
            "format": 1,
            "step": self.done,
            "epoch": epoch,
            "total_steps": self.total_steps,
            "learning_rates": rates,
        }
        if len(optimizer.param_groups) > 1:
            names = {id(parameter): name for name, parameter in model.named_parameters()}
            note["groups"] = [
                [names[id(parameter)] for parameter in group["params"] if id(parameter) in names]
                for group in optimizer.param_groups
            ]
        write_state(point_path(self.folder, self.done), model.state_dict(), note)

    @property
    def trajectory(self) -> Trajectory:
        """What was recorded so far."""
        if self.total_steps is None:
            write_json(self.folder / "total.json", {"total_steps": self.done})
            return Trajectory.open(self.folder, self.done)
        missing = [step for step in sorted(self.planned) if not point_path(self.folder, step).exists()]
        if missing:
            raise MosoError(
                f"training stopped after {self.done} of {self.total_steps} steps: "
                f"sampled step {missing[0]} was never reached"
            )
        return Trajectory.open(self.folder)


def _current_rates(optimizer: torch.optim.Optimizer) -> list[float]:
    return [float(group["lr"]) for group in optimizer.param_groups]
