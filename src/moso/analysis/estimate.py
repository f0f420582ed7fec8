"""Estimate the duration of a run, its memory and its disk, by trying a few of its steps."""

import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from moso.analysis.resources import Resources, Rise, resources
from moso.evaluation.matching import match_words
from moso.evidence import Estimator, TrajectoryPoint, step_terms
from moso.evidence.estimators import IN_RUN
from moso.evidence.outputs import forward_all
from moso.evidence_kinds import EvidenceKind, Price
from moso.evidence_kinds.kind import LOOKING
from moso.evidence_kinds.registry import averages, needed_kinds, needs_reference, needs_surrogates
from moso.evidence_kinds.step_terms import TERMS
from moso.methods.auto import AUTO
from moso.run.choosing import folds, planned_trials, possible_candidates
from moso.run.job import Job
from moso.run.profiling import measuring, resident_memory
from moso.run.rounds import goes_in_rounds, round_ratios
from moso.training.in_run import InRun
from moso.training.loop import AfterStep, Callback, StepPlan, threads, train

CALIBRATION_STEPS = 5
CALIBRATION_SAMPLES = 256


@dataclass(frozen=True)
class StageEstimate:
    """The estimate of one kind of work: number of pieces, and seconds per piece."""

    name: str
    what: str
    pieces: int
    seconds_each: float

    @property
    def seconds(self) -> float:
        """Seconds of all pieces together."""
        return self.pieces * self.seconds_each


@dataclass(frozen=True)
class Estimate:
    """The estimate of all stages of a run on a number of workers, and of its memory and disk."""

    stages: tuple[StageEstimate, ...]
    workers: int
    resources: Resources

    @property
    def wall_seconds(self) -> float:
        """Elapsed seconds with pieces running in parallel."""
        return sum(_wall(stage, self.workers) for stage in self.stages)

    def advice(self) -> str:
        """Return what to cut: the stage that takes most of the time, and the settings that shorten it.

        Empty for a run of less than a minute.
        """
        if self.wall_seconds < 60:
            return ""
        spent = dict.fromkeys(_CUTS, 0.0)
        for stage in self.stages:
            spent[stage.name] = spent.get(stage.name, 0.0) + _wall(stage, self.workers)
        most = max(spent, key=lambda name: spent[name])
        return f"{spent[most] / self.wall_seconds:.0%} of the time is {_CUTS[most]}; --quick is a first look in minutes"


# By stage: its work, and the settings that shorten it.
_CUTS = {
    "train": "training of networks to score with: fewer --seeds or --epochs",
    "score": "scoring: fewer --seeds or --time-steps, or --estimator subsampled",
    "evaluate": "retraining: fewer --seeds, --ratio, --method or --retrain-epochs",
}


def _wall(stage: StageEstimate, workers: int) -> float:
    """Return the elapsed seconds of a stage whose pieces run in parallel."""
    return -(-stage.pieces // min(workers, stage.pieces)) * stage.seconds_each


def estimate(job: Job, workers: int) -> Estimate:
    """Estimate the duration, memory and disk of a run: try a few steps of each kind of work and multiply.

    Args:
        job: The job of the run.
        workers: Number of pieces that run in parallel.

    Raises:
        MosoError: Those of `Job.check`.
    """
    job.check()
    c = job.configuration
    everything = np.arange(len(job.data.train))
    with threads(c.threads):
        clock = _Clock(job)
        per_retraining_step, rise = _tried(clock)
        stages = [*_networks(clock), *_measurements(clock)]
    full = job.training_data(c.retraining, everything, c.seed, proof=True).steps_per_epoch(c.retraining.batch_size)
    stages += [*_later_rounds(job, stages), *_trials(job, full * c.retraining.epochs * per_retraining_step)]
    stages += [
        StageEstimate(
            "evaluate",
            f"retraining on all data, {c.retraining.epochs} epochs, {c.retraining.epochs * full} steps",
            c.seeds,
            c.retraining.epochs * full * per_retraining_step,
        ),
    ]
    stages += [
        StageEstimate(
            "evaluate",
            f"retraining with {ratio:g} removed, {match_words(match)}",
            c.seeds * (len(c.pairs()) + len(c.retrained_baselines(match))),
            c.retraining.epochs * full * (1.0 if match == "steps" else 1.0 - ratio) * per_retraining_step,
        )
        for match in c.matches
        for ratio in c.ratios
    ]
    return Estimate(tuple(stage for stage in stages if stage.seconds > 0), workers, resources(job, workers, rise))


def _later_rounds(job: Job, first: list[StageEstimate]) -> list[StageEstimate]:
    """Return the rounds after the first: its networks and scores again, trained on the share that is still kept."""
    c = job.configuration
    choices = sum(goes_in_rounds(job, choice) for choice in c.choices())
    one = sum(stage.seconds for stage in first) / c.seeds
    found = []
    for ratio in c.ratios if choices else ():
        kept = [1 - removed for removed in round_ratios(ratio, c.rounds)[:-1]]
        what = f"{len(kept)} later rounds up to {ratio:g} removed"
        found.append(StageEstimate("score", what, c.seeds * choices, one * sum(kept)))
    return found


def _trials(job: Job, full: float) -> list[StageEstimate]:
    """Return the trials of `auto`, given the seconds of a retraining on all data."""
    c = job.configuration
    if AUTO not in c.methods:
        return []
    count, parts = len(possible_candidates(job)), folds(c.partitions)
    others = 1 - len(parts[0]) / c.partitions
    return [
        StageEstimate(
            "score",
            f"auto: {count} candidates tried on held-out data at {ratio:g}",
            c.seeds * planned_trials(count, len(parts)),
            full * c.trial_share * others * (1.0 if c.match == "steps" else 1.0 - ratio),
        )
        for ratio in c.ratios
    ]


@dataclass(frozen=True)
class _Clock:
    """Seconds per unit of a price, each measured on first access."""

    job: Job

    @cached_property
    def part(self) -> NDArray[np.int64]:
        """The positions of the samples of the first partition."""
        return self.job.partitions(self.job.configuration.seed)[0]

    @cached_property
    def step(self) -> float:
        """Seconds per training step."""
        return _step_seconds(self.job, retraining=False)

    @cached_property
    def look(self) -> float:
        """Seconds per sample of a forward pass."""
        return _looking_seconds(self.job, self.part)

    @cached_property
    def scoring(self) -> float:
        """Seconds per sample and time step of scoring."""
        return _scoring_seconds(self.job, self.part, self.job.estimator(self.job.configuration.seed))

    @cached_property
    def gradient(self) -> float:
        """Seconds per sample gradient: the first of the two passes of a time step, counted as half of both."""
        return _scoring_seconds(self.job, self.part, Estimator("exact")) / 2


def _tried(clock: _Clock) -> tuple[float, Rise]:
    """Try a few steps of training and scoring; return the seconds of a retraining step, and how far memory rose."""
    base, rises = resident_memory(), list[int]()
    with measuring(lambda _, peak: rises.append(peak or 0)):
        seconds = _step_seconds(clock.job, retraining=True)
    scored = 0
    with measuring(lambda _, peak: rises.append(peak or 0)):
        c = clock.job.configuration
        if TERMS in needed_kinds(c.needs()) and c.estimator != IN_RUN:  # in-run terms are collected while training
            scored = min(len(clock.part), CALIBRATION_SAMPLES)
            assert clock.scoring >= 0  # timed on first access
    return seconds, Rise(base, rises[0], rises[1], scored)


def _networks(clock: _Clock) -> list[StageEstimate]:
    """Estimate the training of networks: one surrogate per partition, and references on all data."""
    job = clock.job
    c, needs, everything = job.configuration, job.configuration.needs(), np.arange(len(job.data.train))
    reference = needs_reference(needs)
    kinds: list[tuple[str, NDArray[np.int64], int, int]] = []
    if needs_surrogates(needs) or (reference and c.partitions == 1):
        kinds.append(("a surrogate", clock.part, c.partitions, c.surrogate.epochs))
    if reference and c.partitions > 1:
        kinds.append(("a reference", everything, 1, c.surrogate.epochs))
    if averages(needs) and c.initialisations > 1:
        kinds.append(("another initialisation", everything, c.initialisations - 1, c.early_epoch))
    return [
        StageEstimate(
            "train",
            f"{name} on {len(positions)} samples, {epochs} epochs, {epochs * job.steps_per_epoch(positions)} steps",
            c.seeds * count,
            epochs * job.steps_per_epoch(positions) * clock.step,
        )
        for name, positions, count, epochs in kinds
    ]


def _measurements(clock: _Clock) -> list[StageEstimate]:
    """Estimate the measurement of every needed kind of evidence; forward passes over all samples are one line, last."""
    c = clock.job.configuration
    priced = [(kind, kind.price(c)) for kind in needed_kinds(c.needs())]
    found: dict[tuple[str, str], StageEstimate] = {}
    for kind, price in priced:
        if price is not None:
            one = _measurement(clock, kind, price)
            before = found.get((one.name, one.what))
            found[one.name, one.what] = one if before is None else replace(one, pieces=before.pieces + one.pieces)
    return sorted(found.values(), key=lambda one: (one.name != "train", one.what.startswith("a look at")))


def _measurement(clock: _Clock, kind: EvidenceKind[object], price: Price) -> StageEstimate:
    job = clock.job
    positions = clock.part if kind.network == "surrogate" else np.arange(len(job.data.train))
    pieces, looks, samples = kind.pieces(job.configuration), price.looks, len(positions)
    if price.work == LOOKING and looks:  # every forward pass counts as one piece
        pieces, looks = pieces * round(looks), 1.0
    seconds = looks * samples * clock.look if looks else 0.0
    seconds += price.gradients * samples * clock.gradient if price.gradients else 0.0
    seconds += price.scorings * samples * clock.scoring if price.scorings else 0.0
    seconds += price.epochs * job.steps_per_epoch(positions) * clock.step if price.epochs else 0.0
    what = price.what.format(samples=samples, steps=job.total_steps(positions))
    return StageEstimate(price.stage, what, job.configuration.seeds * pieces, seconds)


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
        # Pretend that epochs are short: in-run terms start with the second epoch, and the timing ends within it.
        steps, last = 2 * CALIBRATION_STEPS - 1, np.array([2 * CALIBRATION_STEPS])
        callbacks = [InRun(positions, last, CALIBRATION_STEPS, lambda terms: None, job.parameter_filter)]
    train(
        job.model(c.seed, c.retrained_network if retraining else ""),
        StepPlan(job.training_data(recipe, positions, c.seed, proof=retraining), recipe, c.seed, steps),
        loss=job.loss,
        callbacks=[*callbacks, AfterStep(lambda run, step: marks.append(time.monotonic()))],
        loader_workers=job.runtime.loader_workers,
    )
    return float(np.median(np.diff(marks)[1 - CALIBRATION_STEPS :]))  # leave out the first steps, which include warm-up


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
