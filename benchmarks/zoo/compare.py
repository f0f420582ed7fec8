"""One network of the zoo: what a time step costs beside its rivals, and how right it is."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import moso
from benchmarks.scoring.clock import Spread, Work, take_turns
from benchmarks.scoring.compare import WRONG, in_a_word, largest_error
from benchmarks.scoring.engines.batch_of_one import loop_of_one
from benchmarks.scoring.engines.with_vmap import with_vmap
from benchmarks.zoo.problem import Checkpoint, Network, Problem, make
from benchmarks.zoo.truth import true_scores
from moso.gradients.fallback import warn_once

Scores = NDArray[np.float64]
Run = Callable[[Problem, int], Scores]
MOSO, LATER, TRAINING = "moso", "moso later", "training"
RATE = 1.0
# Time steps of a run, as many as the paper has; moso looks at the network at the first of them.
TIME_STEPS = 10
# What moso's float32 may err by, as a share of the largest score.
LIMIT = 1e-5


@dataclass(frozen=True)
class Effort:
    """How much is measured: `samples` in batches of `batch`, `turns` of all, error on the first `checked` samples.

    A loop of one that would take more than `seconds` is given fewer samples; its cost goes with their number.
    """

    samples: int = 512
    batch: int = 32
    turns: int = 5
    checked: int = 64
    seconds: float = 3.0


def by_moso(problem: Problem, batch: int) -> Scores:
    """Through the public door, with one checkpoint: reading the samples, probing, both sweeps."""
    return moso.score(
        problem.model,
        problem.items,
        [(own_state(problem), RATE)],
        loss=problem.loss,
        batch_size=batch,
        collate=problem.collate,
        total_steps=len(problem.items),  # so that a score is `a_t(z)` itself, which rivals give
    )


def by_vmap(problem: Problem, batch: int) -> Scores:
    """The mean gradient by ordinary backward passes, then `vmap(grad)` batch by batch."""
    return with_vmap(problem.model, problem.loss, list(problem.batches(batch)))


def by_loop(problem: Problem, batch: int) -> Scores:
    """Plain autograd on one sample at a time, twice."""
    return loop_of_one(problem.model, problem.loss, list(problem.batches(1)))


RIVALS: Mapping[str, Run] = {"vmap": by_vmap, "loop": by_loop}
ENGINES: Mapping[str, Run] = {MOSO: by_moso, **RIVALS}


def backward_epoch(problem: Problem, batch: int) -> None:
    """Forward and backward over all samples in training mode: the unit that costs are measured in."""
    leaves = [parameter for parameter in problem.model.train().parameters() if parameter.requires_grad]
    for part in problem.batches(batch):
        torch.autograd.grad(problem.loss(problem.model, part).mean(), leaves, allow_unused=True)


def compare(network: Network, effort: Effort, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """A row of the table: seconds, ratios, errors, refusals, and what was announced as slow."""
    checked = min(effort.checked, effort.samples)
    truth = true_scores(*exact_problem(network, checked), total_steps=checked)
    small = make(network, samples=checked)
    errors: dict[str, float] = {}
    refusals: dict[str, str] = {}
    paces: dict[str, float] = {}
    with announcements() as slow:
        for name, run in ENGINES.items():
            started = perf_counter()
            try:
                errors[name] = largest_error(run(fresh(small), effort.batch), truth)
            except Exception as problem_of_it:  # noqa: BLE001 - anything may go wrong, in moso too; the row says how
                refusals[name] = in_a_word(problem_of_it)
            paces[name] = (perf_counter() - started) / checked
            say(f"  {name}: {refusals[name] if name in refusals else format(errors[name], '.0e')}")
        wide = error_in_float64(network, checked, truth) if MOSO in errors else None
    whole = make(network, samples=effort.samples)
    counts = dict.fromkeys(errors, effort.samples)
    if "loop" in errors:
        counts["loop"] = min(effort.samples, max(effort.batch, int(effort.seconds / paces["loop"])))
    works: dict[str, Work] = {TRAINING: lambda: partial(backward_epoch, fresh(whole), effort.batch)}
    for name in errors:
        works[name] = _timed(ENGINES[name], whole, counts[name], effort.batch)
    if MOSO in errors:
        works[LATER] = _timed_again(whole, effort.batch)
    turns = [
        {name: seconds * effort.samples / counts.get(name, effort.samples) for name, seconds in turn.items()}
        for turn in take_turns(works, effort.turns, warm_up=False)  # the checks have warmed all of them up
    ]
    return {
        "description": network.description,
        "parameters": sum(value.numel() for value in whole.model.parameters() if value.requires_grad),
        "seconds": {name: asdict(Spread.of([turn[name] for turn in turns])) for name in works},
        "samples": counts,
        # How many times as long as moso, or a training epoch, takes: medians of the turns' ratios.
        "against": {name: against(turns, name) for name in RIVALS if name in errors and MOSO in errors},
        "against_first": {name: ratio(turns, name, MOSO) for name in RIVALS if name in errors and MOSO in errors},
        "epochs": ratio(turns, LATER, TRAINING) if MOSO in errors else None,
        "errors": errors,
        "error_in_float64": wide,
        "refusals": refusals,
        "slow": slow,
    }


def exact_problem(network: Network, samples: int) -> tuple[Problem, list[Checkpoint]]:
    """The problem and its one checkpoint in float64, as brute force takes them."""
    problem = make(network, torch.float64, samples=samples)
    return problem, [(own_state(problem), RATE)]


def own_state(problem: Problem) -> dict[str, torch.Tensor]:
    """The network's own state, as a checkpoint."""
    return dict(problem.model.state_dict())


def error_in_float64(network: Network, samples: int, truth: Scores) -> float:
    """moso's error when it runs in float64."""
    return largest_error(by_moso(make(network, torch.float64, samples=samples), 32), truth)


def fresh(problem: Problem, count: int | None = None) -> Problem:
    """The first `count` samples and a copy of the network that no engine has seen."""
    return replace(problem, model=deepcopy(problem.model), items=problem.items[:count])


def ratio(turns: list[dict[str, float]], one: str, other: str) -> float:
    """The median over turns of one's seconds by the other's.

    >>> ratio([{"a": 2.0, "b": 1.0}, {"a": 9.0, "b": 3.0}, {"a": 8.0, "b": 2.0}], "a", "b")
    3.0
    """
    return median(turn[one] / turn[other] for turn in turns)


def against(turns: list[dict[str, float]], rival: str) -> float:
    """The median over turns of a rival's seconds by moso's, both over the time steps of one run."""
    return median(turn[rival] * TIME_STEPS / (turn[MOSO] + (TIME_STEPS - 1) * turn[LATER]) for turn in turns)


def is_right(row: Mapping[str, Any], name: str) -> bool:
    """Whether an engine ran on this network and gave the scores."""
    return name in row["errors"] and row["errors"][name] <= (LIMIT if name == MOSO else WRONG)


@contextmanager
def announcements() -> Iterator[list[str]]:
    """What moso announces meanwhile, such as parameters without a closed form."""
    messages: list[str] = []
    warn_once.cache_clear()  # the network before may have said the same

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, keep = logging.getLogger("moso"), Keep(logging.WARNING)
    logger.addHandler(keep)
    propagated, logger.propagate = logger.propagate, False
    try:
        yield messages
    finally:
        logger.removeHandler(keep)
        logger.propagate = propagated


def _timed_again(problem: Problem, batch: int) -> Work:
    """A time step of a network that moso has seen before."""

    def prepare() -> Callable[[], Any]:
        own = fresh(problem)
        by_moso(own, batch)
        return partial(by_moso, own, batch)

    return prepare


def _timed(run: Run, problem: Problem, count: int, batch: int) -> Work:
    return lambda: partial(run, fresh(problem, count), batch)
