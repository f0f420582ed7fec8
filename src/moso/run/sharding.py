"""Scoring a partition in shards that can be anywhere: what lets one partition use a whole cluster.

A time step goes in four kinds of pieces, each waiting for all of the one before:

    score-sums    a shard: the sum of its samples' gradients, and `|g_z|^2` of each
    score-mean    a step: the sums added in the order of the shards, divided: the mean gradient
    score-dots    a shard: `G . g_z` of each sample
    score-terms   a step: both terms of all shards, in order, where whole partitions have theirs

What pieces leave for each other lies in `state/part-000/shards/` and goes with the last. Which samples make a shard is
configuration and sums are added in one order, so where a shard is scored changes no bit.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from moso import errors
from moso.data.views import split_evenly
from moso.evidence import StepTerms, Trajectory, TrajectoryPoint, read_state, terms_path, write_state, write_terms
from moso.evidence.estimators import Load
from moso.evidence.measure import checked, prepared
from moso.files import clear_away
from moso.gradients import Point, directional_derivatives, gradient_sums, mean_of
from moso.progress import Progress
from moso.results.layout import part_name, piece_name
from moso.run.job import Job
from moso.run.training import computed

_NORMS, _DOTS = "norms", "dots"


@dataclass(frozen=True)
class ShardedStep:
    """One time step of a partition, its samples dealt into shards of consecutive positions."""

    job: Job
    seed: int
    part: int
    step: int

    @property
    def positions(self) -> NDArray[np.int64]:
        """The samples of the partition."""
        return self.job.partitions(self.seed)[self.part]

    @property
    def shards(self) -> list[NDArray[np.int64]]:
        """The samples of every shard."""
        return split_evenly(self.positions, self.job.configuration.shard_size)

    @property
    def home(self) -> Path:
        """The seed's folder."""
        return self.job.directory.of_seed(self.job.configuration, self.seed)

    @property
    def terms(self) -> Path:
        """Where the step's terms go."""
        return terms_path(self.home / "terms" / part_name(self.part), self.step)

    @property
    def folder(self) -> Path:
        """Where shards leave what others wait for."""
        return self.home / "state" / part_name(self.part) / "shards" / f"step-{self.step:08d}"

    def path(self, what: str, shard: int = 0) -> Path:
        """Where a result of a shard is, or of the whole step."""
        return self.folder / f"{what}-{shard:05d}.safetensors"

    def point(self) -> TrajectoryPoint:
        """The recorded step."""
        folder = self.home / "trajectory" / part_name(self.part)
        for point in Trajectory.open(folder):
            if point.step == self.step:
                return point
        raise errors.StageIncomplete(f"{folder} has no step {self.step}; run `moso train` first")

    def opened(self, point: TrajectoryPoint) -> tuple[Point, Load]:
        """The network at the step, and how its samples come in batches."""
        job = self.job
        return prepared(
            job.model(self.seed),
            point,
            job.data.train.evaluation_view(),
            self.positions,
            job.loss,
            job.configuration.score_batch_size,
            job.parameter_filter,
            job.runtime.loader_workers,
        )

    def note_seconds(self, started: float) -> None:
        """Note what a piece took."""
        computed(self.job, "score", piece_name(self.seed, part_name(self.part)), time.monotonic() - started)


def sum_shard(job: Job, progress: Progress, seed: int, part: int, step: int, shard: int) -> None:
    """The sum of the gradients of a shard's samples, and their squared norms."""
    whole, started = ShardedStep(job, seed, part, step), time.monotonic()
    point = whole.point()
    at, load = whole.opened(point)
    total, norms = gradient_sums(at, lambda: load(whole.shards[shard]), point.groups)
    sums = {f"sum.{name}": value for name, value in total.items()}
    write_state(whole.path("sums", shard), {**sums, _NORMS: torch.from_numpy(norms)}, {"step": step, "shard": shard})
    whole.note_seconds(started)


def mean_of_shards(job: Job, progress: Progress, seed: int, part: int, step: int) -> None:
    """The mean gradient of a partition from the sums of its shards, added in their order."""
    whole, started = ShardedStep(job, seed, part, step), time.monotonic()
    at = Point.of(job.model(seed), job.loss, None, job.parameter_filter)
    total: dict[str, torch.Tensor] = {}
    for shard in range(len(whole.shards)):
        state, _ = read_state(whole.path("sums", shard))
        for name in at.trained:
            own = state[f"sum.{name}"].to(at.device)
            total[name] = own if shard == 0 else total[name].add_(own)
    write_state(whole.path("mean"), mean_of(at, total, len(whole.positions)), {"step": step})
    whole.note_seconds(started)


def dots_of_shard(job: Job, progress: Progress, seed: int, part: int, step: int, shard: int) -> None:
    """The products of the mean gradient with the gradients of a shard's samples."""
    whole, started = ShardedStep(job, seed, part, step), time.monotonic()
    point = whole.point()
    at, load = whole.opened(point)
    state, _ = read_state(whole.path("mean"))
    mean = {name: value.to(at.device) for name, value in state.items()}
    dots = directional_derivatives(at, lambda: load(whole.shards[shard]), mean, point.groups)
    write_state(whole.path("dots", shard), {_DOTS: torch.from_numpy(dots)}, {"step": step, "shard": shard})
    whole.note_seconds(started)


def terms_of_shards(job: Job, progress: Progress, seed: int, part: int, step: int) -> None:
    """The terms of a step from those of its shards, which are of no more use then."""
    whole, started = ShardedStep(job, seed, part, step), time.monotonic()
    if not whole.terms.exists():
        point, shards = whole.point(), range(len(whole.shards))
        norms = [read_state(whole.path("sums", shard))[0][_NORMS].numpy() for shard in shards]
        dots = [read_state(whole.path("dots", shard))[0][_DOTS].numpy() for shard in shards]
        found = StepTerms(step, point.learning_rates, np.concatenate(dots, axis=1), np.concatenate(norms, axis=1))
        write_terms(whole.terms, checked(found, whole.positions))
        whole.note_seconds(started)
    clear_away(whole.folder)
    if whole.folder.parent.exists() and not any(whole.folder.parent.iterdir()):
        clear_away(whole.folder.parent)


SHARDED: dict[str, Callable[..., None]] = {
    "score-sums": sum_shard,
    "score-mean": mean_of_shards,
    "score-dots": dots_of_shard,
    "score-terms": terms_of_shards,
}

# What a piece looks at of what those before it left.
LOOKED_AT = {"score-mean": ("sums-",), "score-dots": ("mean-",), "score-terms": ("sums-", "dots-")}


def is_sharded_done(job: Job, stage: str, seed: int, part: int, step: int, shard: int = 0) -> bool:
    """Whether a piece of sharded scoring has left its result, or is of no more use."""
    whole = ShardedStep(job, seed, part, step)
    if stage == "score-terms":
        return whole.terms.exists() and not whole.folder.exists()
    return whole.terms.exists() or whole.path(stage.removeprefix("score-"), shard).exists()


def rounds(job: Job) -> Iterator[list[tuple[str, dict[str, int]]]]:
    """The rounds of sharded scoring in order, each a list of (stage, arguments).

    The same numbered step of all partitions goes together, and the products of one step with the sums of the next: few
    rounds have nothing but one small piece for a whole cluster, and no more sums are kept than those of two steps each.
    """
    steps = {
        (seed, part): job.time_steps(positions, seed).tolist()
        for seed in job.configuration.all_seeds()
        for part, positions in enumerate(job.partitions(seed))
    }

    def pieces(stage: str, number: int) -> Iterator[tuple[str, dict[str, int]]]:
        for (seed, part), own in steps.items():
            if not 0 <= number < len(own):
                continue
            arguments = {"seed": seed, "part": part, "step": own[number]}
            if stage in ("score-mean", "score-terms"):
                yield stage, arguments
            else:
                count = len(ShardedStep(job, **arguments).shards)
                yield from ((stage, {**arguments, "shard": shard}) for shard in range(count))

    for number in range(max(map(len, steps.values())) + 1):
        yield [*pieces("score-dots", number - 1), *pieces("score-sums", number)]
        yield [*pieces("score-terms", number - 1), *pieces("score-mean", number)]
