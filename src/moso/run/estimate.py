"""How long a run will take, from a few real steps of it."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moso.evidence import TrajectoryPoint, step_terms
from moso.evidence.estimators import IN_RUN
from moso.run.job import Job
from moso.training.in_run import InRun
from moso.training.loop import threads, train

CALIBRATION_STEPS = 5
CALIBRATION_SAMPLES = 256


@dataclass(frozen=True)
class StageEstimate:
    """One stage: how many pieces, and how long one takes."""

    name: str
    what: str
    pieces: int
    seconds_each: float

    @property
    def seconds(self) -> float:
        """All pieces, one after the other."""
        return self.pieces * self.seconds_each


@dataclass(frozen=True)
class Estimate:
    """All stages of a run on so many workers."""

    stages: tuple[StageEstimate, ...]
    workers: int

    @property
    def wall_seconds(self) -> float:
        """How long it takes on a clock, pieces side by side."""
        return sum(-(-stage.pieces // min(self.workers, stage.pieces)) * stage.seconds_each for stage in self.stages)


def estimate(job: Job, workers: int) -> Estimate:
    """Time a few steps of each kind of work and multiply."""
    job.check()
    c = job.configuration
    positions = job.partitions(c.seed)[0]
    everything = np.arange(len(job.data.train))
    with threads(c.threads):
        per_surrogate_step = _step_seconds(job, retraining=False)
        per_retraining_step = _step_seconds(job, retraining=True)
        per_sample = 0.0 if c.estimator == IN_RUN else _scoring_seconds(job, positions)
    total = job.total_steps(positions)
    full = job.training_data(c.retraining, everything, c.seed).steps_per_epoch(c.retraining.batch_size)
    stages = [
        StageEstimate(
            "train",
            f"a surrogate on {len(positions)} samples, {c.surrogate.epochs} epochs, {total} steps",
            c.seeds * c.partitions,
            total * per_surrogate_step,
        ),
        StageEstimate(
            "score",
            f"{c.time_steps} time steps of {len(positions)} samples",
            c.seeds * c.partitions,
            c.time_steps * len(positions) * per_sample,
        ),
        StageEstimate(
            "evaluate",
            f"retraining on all data, {c.retraining.epochs} epochs, {c.retraining.epochs * full} steps",
            c.seeds,
            c.retraining.epochs * full * per_retraining_step,
        ),
    ]
    for ratio in c.ratios:
        share = 1.0 if c.match == "steps" else 1.0 - ratio
        stages.append(
            StageEstimate(
                "evaluate",
                f"retraining with {ratio:g} removed, equal {c.match}",
                c.seeds * len(c.pairs()),
                c.retraining.epochs * full * share * per_retraining_step,
            )
        )
    return Estimate(tuple(stage for stage in stages if stage.seconds_each > 0), workers)


def _step_seconds(job: Job, retraining: bool) -> float:
    c = job.configuration
    recipe = c.retraining if retraining else c.surrogate
    positions = np.arange(len(job.data.train)) if retraining else job.partitions(c.seed)[0]
    marks: list[float] = []
    steps, in_run = CALIBRATION_STEPS + 1, None
    if not retraining and c.estimator == IN_RUN:
        # As if epochs were short: the first does not count, and the second is not finished.
        steps, last = 2 * CALIBRATION_STEPS - 1, np.array([2 * CALIBRATION_STEPS])
        in_run = InRun(positions, last, CALIBRATION_STEPS, lambda terms: None, job.parameter_filter)
    train(
        job.model(c.seed, retraining),
        job.training_data(recipe, positions, c.seed),
        recipe,
        seed=c.seed,
        total_steps=steps,
        loss=job.loss,
        on_step=lambda *_: marks.append(time.monotonic()),
        in_run=in_run,
        loader_workers=job.effort.loader_workers,
    )
    return float(np.median(np.diff(marks)[1 - CALIBRATION_STEPS :]))  # the first steps also pay for warming up


def _scoring_seconds(job: Job, positions: NDArray[np.int64]) -> float:
    c = job.configuration
    model = job.model(c.seed)
    point = TrajectoryPoint(1, (1.0,), memory=model.state_dict())
    some = positions[: max(2, min(len(positions), c.score_batch_size or CALIBRATION_SAMPLES))]
    view = job.data.train.evaluation_view()
    timings = []
    for _ in range(2):
        started = time.monotonic()
        step_terms(
            model,
            point,
            view,
            some,
            loss=job.loss,
            batch_size=c.score_batch_size,
            parameters=job.parameter_filter,
            estimator=job.estimator(c.seed),
        )
        timings.append(time.monotonic() - started)
    return min(timings) / len(some)
