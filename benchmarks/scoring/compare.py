"""One network: every engine's cost, memory and error, side by side."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.scoring.clock import Spread, Work, take_turns
from benchmarks.scoring.engines import Engine, Refused, Scores, Truth, truth_of
from benchmarks.scoring.memory import peak_memory
from benchmarks.scoring.problem import Learner, Problem
from benchmarks.scoring.steady import steady_first

TRAINING = "training"
WRONG = 1e-2


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    `checked` samples for error and memory, `repeats` turns, and about `seconds` for one run of a rival: a slower one
    gets fewer samples, whole batches of them, and its row says how many.
    """

    checked: int
    repeats: int = 3
    seconds: float = 6.0
    float64: bool = True


@dataclass(frozen=True)
class Check:
    """What one run of an engine under the memory counter told."""

    largest_error: float
    largest_error_float64: float | None
    peak_bytes: int
    seconds_a_sample: float


@dataclass(frozen=True)
class Row:
    """An engine on a network. Without `refused` all the rest is there; `epochs` are training epochs per time step."""

    engine: str
    title: str
    rival: bool
    quantity: str
    refused: str | None = None
    epochs: Spread | None = None
    seconds: Spread | None = None
    samples: int | None = None
    peak_bytes: int | None = None
    memory: float | None = None
    largest_error: float | None = None
    largest_error_float64: float | None = None


def compare(
    problem: Problem, engines: Mapping[str, Engine], effort: Effort, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Measure the engines on one network: settings, the training step they are measured in, and a row each."""
    device = next(problem.model.parameters()).device
    checked = min(effort.checked, problem.size)
    problem, jumping = steady_first(problem, checked)
    learner = Learner(deepcopy(problem.model), problem.loss)
    training_bytes = training_memory(problem, learner)
    truth = truth_of(problem, checked)
    say(f"{problem.network}: brute force is done, {checked} samples ({jumping} jump)")
    checks: dict[str, Check] = {}
    refusals: dict[str, str] = {}
    for name, engine in engines.items():
        try:
            checks[name] = check(engine, problem, truth, checked, effort.float64)
            say(f"{problem.network}: {name}: largest error {checks[name].largest_error:.1e}")
        except Exception as problem_of_it:  # a rival may fail in any way, and its row says how
            if not engine.rival:
                raise
            refusals[name] = in_a_word(problem_of_it)
            say(f"{problem.network}: {name} refused: {refusals[name]}")
    counts = {
        name: affordable(problem, found.seconds_a_sample, effort.seconds) if engines[name].rival else problem.size
        for name, found in checks.items()
    }
    works: dict[str, Work] = {TRAINING: lambda: partial(learner.epoch, problem.batches())}
    for name in checks:
        works[name] = _timed(engines[name], problem, counts[name])
    turns = take_turns(works, effort.repeats, device, warm_up=False)  # the checks have warmed all of them up
    say(f"{problem.network}: {effort.repeats} turns are done")
    rows = []
    for name, engine in engines.items():
        row = Row(name, engine.title, engine.rival, engine.quantity, refused=refusals.get(name))
        if name in checks:
            row = _filled(row, checks[name], turns, counts[name], problem.size, training_bytes)
        rows.append(asdict(row))
    return {
        "network": problem.network,
        "parameters": sum(value.numel() for value in problem.model.parameters()),
        "samples": problem.size,
        "batch": problem.batch,
        "checked": checked,
        "at_a_kink": jumping,
        "training_step_bytes": training_bytes,
        "training_epoch_seconds": asdict(Spread.of([turn[TRAINING] for turn in turns])),
        "largest_score": float(np.abs(truth.score).max()),
        "median_score": float(np.median(np.abs(truth.score))),
        "rows": rows,
    }


def check(engine: Engine, problem: Problem, truth: Truth, count: int, float64: bool) -> Check:
    """Run an engine on the first `count` samples: is it right, what does it hold, how long does it take?"""
    device = next(problem.model.parameters()).device
    _timed(engine, problem, 2)()()  # imports and other first times
    run = _timed(engine, problem, count)()
    started = perf_counter()
    scores, peak = peak_memory(run, device)
    seconds = perf_counter() - started
    expected = getattr(truth, engine.quantity)
    wide = None
    if float64 and not engine.rival:
        wide = largest_error(_timed(engine, problem.double(), count)()(), expected)
    return Check(largest_error(scores, expected), wide, peak, seconds / count)


def largest_error(found: Scores, truth: Scores) -> float:
    """The largest difference, as a share of the largest true value.

    >>> largest_error(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    0.5
    """
    return float(np.abs(found - truth).max() / np.abs(truth).max())


def training_memory(problem: Problem, learner: Learner) -> int:
    """The peak of one training step, momentum already there and gradients not."""
    batch = problem.batches()[0]
    learner.step(batch)
    learner.optimizer.zero_grad()
    return peak_memory(partial(learner.step, batch), next(problem.model.parameters()).device)[1]


def affordable(problem: Problem, seconds_a_sample: float, limit: float) -> int:
    """All samples, or as many whole batches as fit into `limit` seconds, at least one."""
    batches = max(1, int(limit / (seconds_a_sample * problem.batch)))
    return min(problem.size, batches * problem.batch)


def in_a_word(problem: Exception) -> str:
    """The first sentence of an exception.

    >>> in_a_word(NotImplementedError("no such layer. Sorry.")), in_a_word(Refused("too deep"))
    ('NotImplementedError: no such layer', 'too deep')
    """
    text = " ".join(str(problem).split()).partition(". ")[0].rstrip(".")[:160]
    return text if isinstance(problem, Refused) else f"{type(problem).__name__}: {text}"


def _timed(engine: Engine, problem: Problem, count: int) -> Callable[[], Callable[[], Scores]]:
    return lambda: partial(engine.run, deepcopy(problem.model), problem.loss, problem.batches(count))


def _filled(row: Row, found: Check, turns: list[dict[str, float]], count: int, of: int, training_bytes: int) -> Row:
    seconds = [turn[row.engine] for turn in turns]
    # Costs of a time step and of an epoch go with the number of samples, so a rival on fewer is scaled.
    epochs = [turn[row.engine] / count / (turn[TRAINING] / of) for turn in turns]
    return Row(
        row.engine,
        row.title,
        row.rival,
        row.quantity,
        epochs=Spread.of(epochs),
        seconds=Spread.of(seconds),
        samples=count,
        peak_bytes=found.peak_bytes,
        memory=found.peak_bytes / training_bytes,
        largest_error=found.largest_error,
        largest_error_float64=found.largest_error_float64,
    )
