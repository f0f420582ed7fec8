"""Training and testing by `moso` and by a plain loop, by turns in one process.

`moso` does its pieces of work whole: batches from the memory map, the trajectory's steps, checkpoints, heartbeats and
events are in its time. The plain loop has the normalised float32 samples of the partition in memory as one tensor,
indexes into it and uses `torch.optim.SGD`; nothing of moso is in it.
"""

import math
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from moso.configuration import Configuration
from moso.evaluation.baselines import FEWER_STEPS
from moso.evaluation.metrics import measured
from moso.progress import silent
from moso.results.retrainings import Retraining
from moso.run.job import Job
from moso.run.network_pieces import TrainSurrogate
from moso.run.pieces import perform
from moso.run.retraining_piece import Retrain
from moso.run.stages import begin
from moso.run.training import record_initial_state
from moso.training.recipe import TrainingRecipe

RATIO = 0.8


def open_job(data: Path, out: Path, model: str, epochs: int, partitions: int, time_steps: int = 10) -> Job:
    """Begin a run on features with the recipe `linear-probe`, on one thread."""
    given = {"dataset": f"features:{data}", "model": model, "recipe": "linear-probe", "epochs": epochs}
    own = {
        "partitions": partitions,
        "methods": ["moso"],
        "ratios": [RATIO],
        "seeds": 1,
        "threads": 1,
        "time_steps": time_steps,
    }
    configuration = Configuration.resolve({**given, **own, "retrain_epochs": epochs})
    out.mkdir(parents=True)
    job = Job.open(out, configuration)
    begin(job)
    record_initial_state(job, 0)
    return job


def surrogates(job: Job) -> dict[str, Any]:
    """Train the surrogate of every partition, and the same network in a plain loop."""
    turns = []
    for part, positions in enumerate(job.partitions(0)):
        inputs, labels = job.data.train.evaluation_view().batch(positions)

        def ours(part: int = part) -> None:
            perform(job, TrainSurrogate(0, part), silent)

        def theirs(inputs: torch.Tensor = inputs, labels: torch.Tensor = labels) -> None:
            plain_loop(job.model(0), inputs, labels, job.configuration.surrogate)

        turns.append(taken(ours, theirs, part))
    steps = job.total_steps(job.partitions(0)[0])
    return {**summary(turns), "steps": steps * len(turns)}


def retraining(job: Job, turns: int) -> dict[str, Any]:
    """Retrain and test a network on all data for as many updates as a fifth of it gives, and so in a plain loop."""
    recipe, train, test = job.configuration.retraining, job.data.train, job.data.test
    assert test is not None
    inputs, labels = train.evaluation_view().batch(np.arange(len(train)))
    test_inputs, test_labels = test.evaluation_view().batch(np.arange(len(test)))
    kept = round(len(train) * (1 - RATIO))
    found = []
    for turn in range(turns):
        own = Retraining(FEWER_STEPS, "none", RATIO, turn, job.configuration.model, "linear-probe", "epochs")

        def ours(own: Retraining = own) -> None:
            perform(job, Retrain(own), silent)

        def theirs() -> None:
            model = job.model(0)
            plain_loop(model, inputs, labels, recipe, recipe.epochs * -(-kept // recipe.batch_size))
            _plain_test(model, test_inputs, test_labels)

        found.append(taken(ours, theirs, turn))
    return summary(found)


def testing(job: Job, turns: int) -> dict[str, Any]:
    """Test a network on the test split, and so with one product and one comparison per 512 samples."""
    test, model = job.data.test, job.model(0)
    assert test is not None
    inputs, labels = test.evaluation_view().batch(np.arange(len(test)))
    view, everything = test.evaluation_view(), np.arange(len(test))

    def ours() -> None:
        measured(model, view, everything, job.metric)

    return summary([taken(ours, lambda: _plain_test(model, inputs, labels), turn) for turn in range(turns)])


def warm_up() -> None:
    """Make the first `torch.optim.SGD` of the process, which imports a compiler; that is no part of a training."""
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1).step()


def plain_loop(
    model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, recipe: TrainingRecipe, total: int | None = None
) -> None:
    """Train as people do without any library: index into a tensor, forward, backward, `torch.optim.SGD`."""
    size, rate = recipe.batch_size, recipe.learning_rate
    optimizer = torch.optim.SGD(model.parameters(), rate, recipe.momentum, weight_decay=recipe.weight_decay)
    total, done = total or recipe.epochs * -(-len(labels) // size), 0
    while done < total:
        order = torch.randperm(len(labels))
        for start in range(0, len(labels), size):
            optimizer.param_groups[0]["lr"] = rate * (1 + math.cos(math.pi * done / total)) / 2
            chosen = order[start : start + size]
            loss = F.cross_entropy(model(inputs[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            done += 1
            if done == total:
                break


@torch.no_grad()
def _plain_test(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> float:
    right = sum(
        int((model(inputs[start : start + 512]).argmax(1) == labels[start : start + 512]).sum())
        for start in range(0, len(labels), 512)
    )
    return right / len(labels)


def taken(ours: Callable[[], object], theirs: Callable[[], object], turn: int) -> dict[str, tuple[float, float]]:
    """Return wall and processor seconds of both; who goes first changes from turn to turn."""
    found = {}
    for name, work in sorted({"moso": ours, "plain": theirs}.items(), reverse=turn % 2 == 1):
        wall, processor = perf_counter(), process_time()
        work()
        found[name] = perf_counter() - wall, process_time() - processor
    return found


def summary(turns: list[dict[str, tuple[float, float]]]) -> dict[str, Any]:
    """Return total seconds of both, and the median of the turns' ratios with the lowest and the highest."""
    ratios = sorted(turn["moso"][1] / turn["plain"][1] for turn in turns)
    walls = [turn["moso"][0] / turn["plain"][0] for turn in turns]
    return {
        "ratio": round(median(ratios), 3),
        "lowest": round(ratios[0], 3),
        "highest": round(ratios[-1], 3),
        "wall_ratio": round(median(walls), 3),
        "turns": len(turns),
        **{
            f"{name}_{what}": round(sum(turn[name][number] for turn in turns), 3)
            for name in ("moso", "plain")
            for number, what in enumerate(("wall_seconds", "processor_seconds"))
        },
    }
