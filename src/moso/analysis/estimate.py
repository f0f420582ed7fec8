"""How long a run will take, from a few real steps of it."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moso.evidence import Estimator, TrajectoryPoint, step_terms
from moso.evidence.estimators import IN_RUN
from moso.evidence.outputs import forward_all
from moso.run.job import Job
from moso.run.label_free_embedding import TRAINED, unlabelled
from moso.run.work_plan import averages, columns, needs_reference, needs_surrogates
from moso.training.in_run import InRun
from moso.training.loop import AfterStep, Callback, StepPlan, threads, train

CALIBRATION_STEPS = 5
CALIBRATION_SAMPLES = 256
# What the adjoint of a training takes, in trainings, and what every probe adds (docs/adjoint.md).
ADJOINT_RUNS = 5.5
ADJOINT_PROBE = 2.5


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
    everything = np.arange(len(job.data.train))
    with threads(c.threads):
        stages = [*_networks(job), *_measurements(job)]
        per_retraining_step = _step_seconds(job, retraining=True)
    full = job.training_data(c.retraining, everything, c.seed).steps_per_epoch(c.retraining.batch_size)
    stages += [
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
                c.seeds * (len(c.pairs()) + len(c.retrained_baselines())),
                c.retraining.epochs * full * share * per_retraining_step,
            )
        )
    return Estimate(tuple(stage for stage in stages if stage.seconds > 0), workers)


def _networks(job: Job) -> list[StageEstimate]:
    """The networks that are trained to leave evidence: a surrogate a partition, and references on all of the data."""
    c, needs = job.configuration, job.configuration.needs()
    part, everything = job.partitions(c.seed)[0], np.arange(len(job.data.train))
    reference = needs_reference(needs)
    kinds: list[tuple[str, NDArray[np.int64], int, int]] = []
    if needs_surrogates(needs) or (reference and c.partitions == 1):
        kinds.append(("a surrogate", part, c.partitions, c.surrogate.epochs))
    if reference and c.partitions > 1:
        kinds.append(("a reference", everything, 1, c.surrogate.epochs))
    if averages(needs) and c.initialisations > 1:
        kinds.append(("another initialisation", everything, c.initialisations - 1, c.early_epoch))
    embedding = "embedding" in needs and c.embedding == TRAINED
    per_step = _step_seconds(job, retraining=False) if kinds or embedding else 0.0
    found = [
        StageEstimate(
            "train",
            f"{name} on {len(positions)} samples, {epochs} epochs, {epochs * job.steps_per_epoch(positions)} steps",
            c.seeds * count,
            epochs * job.steps_per_epoch(positions) * per_step,
        )
        for name, positions, count, epochs in kinds
    ]
    if embedding:
        epochs = unlabelled(job).recipe.epochs
        # Every sample is seen twice.
        seconds = 2 * epochs * job.steps_per_epoch(everything) * per_step
        what = f"an embedding of {len(everything)} samples without labels, {epochs} epochs"
        found.append(StageEstimate("train", what, c.seeds, seconds))
    return found


def _measurements(job: Job) -> list[StageEstimate]:
    """What is measured of trained networks: step terms, gradient norms early in training, and looks at all samples."""
    c, needs, samples = job.configuration, job.configuration.needs(), len(job.data.train)
    positions = job.partitions(c.seed)[0]
    found = []
    if "terms" in needs and c.estimator != IN_RUN:
        each = _scoring_seconds(job, positions, job.estimator(c.seed))
        if c.view == "training":  # a forward pass for the statistics
            each += _looking_seconds(job, positions)
        seconds = c.time_steps * len(positions) * each
        what = f"{c.time_steps} time steps of {len(positions)} samples"
        found.append(StageEstimate("score", what, c.seeds * c.partitions, seconds))
    if "adjoint" in needs:
        steps = job.total_steps(positions)
        seconds = (ADJOINT_RUNS + ADJOINT_PROBE * c.probes) * steps * _step_seconds(job, retraining=False)
        what = f"the adjoint of {steps} steps, {c.probes} probes"
        found.append(StageEstimate("score", what, c.seeds * c.partitions, seconds))
    if "early-norms" in needs:
        # The first of a time step's two sweeps.
        seconds = samples * _scoring_seconds(job, positions, Estimator("exact")) / 2
        found.append(
            StageEstimate("score", f"gradient norms of {samples} samples", c.seeds * c.initialisations, seconds)
        )
    looks = c.initialisations * ("early-errors" in needs) + ("features" in needs) + bool(columns(needs, "final"))
    looks += (c.partitions - 1) * ("predictions" in needs) + 2 * ("influences" in needs)
    if looks:
        seconds = samples * _looking_seconds(job, positions)
        found.append(StageEstimate("score", f"a look at {samples} samples", c.seeds * looks, seconds))
    return found


def _looking_seconds(job: Job, positions: NDArray[np.int64]) -> float:
    model, view, some = (
        job.model(job.configuration.seed),
        job.data.train.evaluation_view(),
        positions[:CALIBRATION_SAMPLES],
    )
    timings = []
    for _ in range(2):
        started = time.monotonic()
        for _ in forward_all(model, job.loss, view, some):
            pass
        timings.append(time.monotonic() - started)
    return min(timings) / len(some)


def _step_seconds(job: Job, retraining: bool) -> float:
    c = job.configuration
    recipe = c.retraining if retraining else c.surrogate
    positions = np.arange(len(job.data.train)) if retraining else job.partitions(c.seed)[0]
    marks: list[float] = []
    steps, callbacks = CALIBRATION_STEPS + 1, list[Callback]()
    if not retraining and c.estimator == IN_RUN:
        # As if epochs were short: the first does not count, and the second is not finished.
        steps, last = 2 * CALIBRATION_STEPS - 1, np.array([2 * CALIBRATION_STEPS])
        callbacks = [InRun(positions, last, CALIBRATION_STEPS, lambda terms: None, job.parameter_filter)]
    train(
        job.model(c.seed, c.retrain_model if retraining else ""),
        StepPlan(job.training_data(recipe, positions, c.seed), recipe, c.seed, steps),
        loss=job.loss,
        callbacks=[*callbacks, AfterStep(lambda run, step: marks.append(time.monotonic()))],
        loader_workers=job.runtime.loader_workers,
    )
    return float(np.median(np.diff(marks)[1 - CALIBRATION_STEPS :]))  # the first steps also pay for warming up


def _scoring_seconds(job: Job, positions: NDArray[np.int64], estimator: Estimator) -> float:
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
            estimator=estimator,
        )
        timings.append(time.monotonic() - started)
    return min(timings) / len(some)
