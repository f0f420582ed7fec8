"""How the cost of a time step grows: with samples, recorded steps, parameters, batch size and image size."""

import tempfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import moso
from benchmarks.scoring.clock import Spread, Work, take_turns
from benchmarks.scoring.engines import ours
from benchmarks.scoring.inputs import CLASSES, pictures
from benchmarks.scoring.kinks import clear_of_kinks
from benchmarks.scoring.memory import peak_memory
from benchmarks.scoring.problem import Learner, Problem, to_device
from moso.errors import unknown_name
from moso.evidence import Trajectory
from moso.gradients import cross_entropy
from moso.models import build_model

NETWORK = "resnet8"


@dataclass(frozen=True)
class Setting:
    """One point of a growth table: `samples` at `steps` recorded steps of a network of this width."""

    samples: int = 256
    steps: int = 1
    width: int = 16
    batch: int = 64
    image: int = 32


@dataclass(frozen=True)
class Axis:
    """What grows, its letter, and the values it takes; `through_library` scores recorded steps by `moso.score`."""

    title: str
    field: str
    values: tuple[int, ...]
    through_library: bool = False


AXES = {
    "samples": Axis("samples (N)", "samples", (256, 512, 1024, 2048)),
    "steps": Axis("recorded time steps (K)", "steps", (1, 2, 4, 8), through_library=True),
    "parameters": Axis("parameters (P)", "width", (8, 16, 32, 64)),
    "batch": Axis("batch size", "batch", (8, 16, 32, 64, 128)),
    "image": Axis("image size in pixels", "image", (16, 24, 32, 48, 64)),
}


def find_axes(names: Sequence[str]) -> dict[str, Axis]:
    """The axes of these names, or all."""
    for name in names:
        if name not in AXES:
            raise unknown_name("axis of growth", name, AXES)
    return {name: axis for name, axis in AXES.items() if not names or name in names}


def grow(
    axis: Axis, repeats: int, device: torch.device, base: Setting | None = None, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """Measure one axis: a row a value, and the exponents of cost and memory."""
    settings = [replace(base or Setting(), **{axis.field: value}) for value in axis.values]
    problems = [make_problem(setting, device) for setting in settings]
    works: dict[str, Work] = {}
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (setting, problem) in enumerate(zip(settings, problems, strict=True)):
            prepare = _scoring(axis, setting, problem, Path(folder) / str(number))
            learner = Learner(deepcopy(problem.model), problem.loss)
            works[f"{number} scoring"] = prepare
            works[f"{number} training"] = lambda learner=learner, problem=problem: partial(  # type: ignore[misc]
                learner.epoch, problem.batches()
            )
            prepare()()  # first times, that the counter below is not to see
            peaks.append(peak_memory(prepare(), device)[1])
        turns = take_turns(works, repeats, device)
    say(f"growth with {axis.title}: done")
    values = [_value(axis, setting, problem) for setting, problem in zip(settings, problems, strict=True)]
    rows: list[dict[str, Any]] = []
    for number, setting in enumerate(settings):
        pieces = setting.samples * setting.steps
        first = settings[0].samples * settings[0].steps
        seconds = [turn[f"{number} scoring"] for turn in turns]
        relative = [turn[f"{number} scoring"] / pieces / (turn["0 scoring"] / first) for turn in turns]
        epochs = [turn[f"{number} scoring"] / setting.steps / turn[f"{number} training"] for turn in turns]
        rows.append(
            {
                "value": values[number],
                "seconds": asdict(Spread.of(seconds)),
                "milliseconds_a_sample_and_step": 1000 * median(seconds) / pieces,
                "against_the_smallest": asdict(Spread.of(relative)),
                "epochs": asdict(Spread.of(epochs)),
                "peak_bytes": peaks[number],
            }
        )
    return {
        "title": axis.title,
        "setting": {name: value for name, value in asdict(base or Setting()).items() if name != axis.field},
        "rows": rows,
        "exponent": exponent(values, [row["seconds"]["median"] for row in rows]),
        "memory_exponent": exponent(values, peaks),
        "largest_deviation": max(abs(row["against_the_smallest"]["median"] - 1) for row in rows),
    }


def exponent(values: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of a straight line through the logarithms: 1 is linear.

    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(values), np.log(costs), 1)[0])


def make_problem(setting: Setting, device: torch.device) -> Problem:
    """A small ResNet after a short training on twice as many samples, half of them left."""
    model = build_model(f"{NETWORK}-w{setting.width}", (3, setting.image, setting.image), CLASSES, seed=0)
    samples = pictures(2 * setting.samples, setting.image)
    problem = Problem(NETWORK, model, cross_entropy, samples, setting.batch).trained(10)
    return to_device(clear_of_kinks(problem, setting.samples), device)


def _value(axis: Axis, setting: Setting, problem: Problem) -> int:
    if axis.field == "width":
        return sum(value.numel() for value in problem.model.parameters())
    value: int = getattr(setting, axis.field)
    return value


def _scoring(axis: Axis, setting: Setting, problem: Problem, folder: Path) -> Work:
    if not axis.through_library:
        return lambda: partial(ours.exact, problem.model, problem.loss, problem.batches())
    trajectory = _recorded(problem, setting.steps, folder)
    data = tuple(tensor.cpu().numpy() for tensor in problem.samples)
    return lambda: partial(moso.score, problem.model, data, trajectory, batch_size=setting.batch)


def _recorded(problem: Problem, steps: int, folder: Path) -> Trajectory:
    """`steps` updates of ordinary training, each recorded to disk."""
    learner = Learner(deepcopy(problem.model), problem.loss)
    recorder = moso.Recorder(folder, total_steps=steps, samples=steps, seed=0)
    batches = problem.batches()
    for step in range(steps):
        learner.step(batches[step % len(batches)])
        recorder.step(learner.model, learner.optimizer)
    return recorder.trajectory
