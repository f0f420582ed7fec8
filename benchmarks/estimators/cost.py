"""What a time step costs by each estimator, in training epochs of the same network on the same samples."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.estimators.problems import Problem
from benchmarks.estimators.terms import ESTIMATORS, EXACT, IN_RUN
from benchmarks.scoring.clock import Spread
from moso.evidence import Estimator, TrajectoryPoint, step_terms
from moso.training.in_run import InRun
from moso.training.loop import AfterStep, StepPlan, train

TRAINING = "training"


def costs(problem: Problem, network: str, samples: int, repeats: int) -> dict[str, Any]:
    """Seconds of a training epoch and, as multiples of it, of a time step by each estimator, in turns.

    In-run, the multiple is that of a training epoch in which terms are collected.
    """
    positions = problem.positions[:samples]
    model, view = problem.model(network), problem.data.train.evaluation_view()
    point = TrajectoryPoint(1, (0.1,), memory={name: value.clone() for name, value in model.state_dict().items()})

    def time_step(estimator: Estimator) -> float:
        started = perf_counter()
        step_terms(model, point, view, positions, estimator=estimator)
        return perf_counter() - started

    works: dict[str, Callable[[], float]] = {
        TRAINING: partial(epoch_seconds, problem, network, samples, in_run=False),
        IN_RUN: partial(epoch_seconds, problem, network, samples, in_run=True),
        EXACT: partial(time_step, Estimator()),
        **{title: partial(time_step, estimator) for title, estimator in ESTIMATORS.items()},
    }
    turns = [{title: work() for title, work in works.items()} for _ in range(repeats + 1)][1:]
    return {
        "network": network,
        "samples": len(positions),
        "batch": problem.recipe.batch_size,
        "training_epoch_seconds": asdict(Spread.of([turn[TRAINING] for turn in turns])),
        "epochs": {
            title: asdict(Spread.of([turn[title] / turn[TRAINING] for turn in turns]))
            for title in works
            if title != TRAINING
        },
    }


def epoch_seconds(problem: Problem, network: str, samples: int, in_run: bool) -> float:
    """Seconds of the second epoch of a training by the loop that surrogates are trained with."""
    # In PyTorch's own layout of images, as in `benchmarks.scoring`: an epoch means the same in both tables.
    data, recipe = problem.training(samples), problem.recipe.changed(epochs=2, channels_last=False)
    per_epoch = data.steps_per_epoch(recipe.batch_size)
    collector = InRun(data.positions, np.array([2 * per_epoch]), per_epoch, lambda terms: None)
    marks: list[float] = []
    train(
        problem.model(network),
        StepPlan(data, recipe, problem.seed),
        callbacks=[*([collector] if in_run else []), AfterStep(lambda run, step: marks.append(perf_counter()))],
    )
    return marks[-1] - marks[per_epoch - 1]
