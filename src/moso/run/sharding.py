"""Scoring a partition in shards on any machines, so that one partition can use a whole cluster.

A time step takes four kinds of pieces; each kind waits for all pieces of the kind before:

    score-sums    per shard: the sum of the gradients of its samples, and `|g_z|^2` of each
    score-mean    per step: the mean gradient, from the sums added in the order of the shards
    score-dots    per shard: `G . g_z` of each sample
    score-terms   per step: both terms of all shards, in order, written like those of an unsharded partition

Intermediate results are in `state/part-000/shards/`, which the last piece removes. The configuration decides which
samples make a shard, and sums are added in a fixed order, so results are identical bit for bit wherever shards run.
"""

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from moso import errors
from moso.data.views import split_evenly
from moso.evidence import StepTerms, TrajectoryPoint, read_state, terms_path, write_state, write_terms
from moso.evidence.estimators import Load
from moso.evidence.layout import part_name, piece_name
from moso.evidence.measure import checked, prepared
from moso.evidence_kinds.step_terms import TERMS
from moso.files import clear_away
from moso.gradients import Point, directional_derivatives, gradient_sums, mean_of
from moso.progress import Progress
from moso.run.job import Job
from moso.run.pieces import PartitionPiece, Piece
from moso.run.scoring_view import scored_trajectory
from moso.run.training import computed

_NORMS, _DOTS = "norms", "dots"


@dataclass(frozen=True)
class ShardedStep:
    """One time step of a partition, with its samples split into shards of consecutive positions."""

    job: Job
    seed: int
    part: int
    step: int

    @property
    def positions(self) -> NDArray[np.int64]:
        """The positions of the samples of the partition."""
        return self.job.partitions(self.seed)[self.part]

    @property
    def shards(self) -> list[NDArray[np.int64]]:
        """The positions of the samples, one array per shard."""
        return split_evenly(self.positions, self.job.configuration.shard_size)

    @property
    def home(self) -> Path:
        """The folder of the seed."""
        return self.job.directory.of_seed(self.job.configuration, self.seed)

    @property
    def terms(self) -> Path:
        """The path of the terms of the step."""
        return terms_path(TERMS.path(self.home, self.part), self.step)

    @property
    def folder(self) -> Path:
        """The folder of intermediate results."""
        return self.home / "state" / part_name(self.part) / "shards" / f"step-{self.step:08d}"

    def path(self, what: str, shard: int = 0) -> Path:
        """Return the path of an intermediate result of a shard, or of the whole step."""
        return self.folder / f"{what}-{shard:05d}.safetensors"

    def point(self) -> TrajectoryPoint:
        """Return the recorded step.

        Raises:
            MosoError: ``stage-incomplete`` if the step was not recorded.
        """
        for point in scored_trajectory(self.job, self.seed, self.part):
            if point.step == self.step:
                return point
        raise errors.StageIncomplete(f"step {self.step} of {part_name(self.part)} is missing; run `moso train` first")

    def opened(self, point: TrajectoryPoint) -> tuple[Point, Load]:
        """Return the network at the step, and the function that loads positions in batches."""
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


@dataclass(frozen=True)
class _StepPiece(PartitionPiece):
    """A piece of one time step, for all shards together."""

    step: int

    @property
    def name(self) -> str:
        """The partition, the step and the kind of work."""
        return piece_name(self.seed, f"{self.folder}/step-{self.step:08d}/{self.kind}")

    def perform(self, job: Job, progress: Progress) -> None:
        """Do the work and record its seconds."""
        whole, started = ShardedStep(job, self.seed, self.part, self.step), time.monotonic()
        self.work(whole)
        computed(job, "score", piece_name(self.seed, self.folder), time.monotonic() - started)

    def is_complete(self, job: Job) -> bool:
        """Return whether the result is on disk or no longer needed."""
        whole = ShardedStep(job, self.seed, self.part, self.step)
        return whole.terms.exists() or self.result(whole).exists()

    def result(self, whole: ShardedStep) -> Path:
        """Return the path of the result."""
        return whole.path(self.kind.removeprefix("score-"))

    @abstractmethod
    def work(self, whole: ShardedStep) -> None:
        """Compute and write the result."""


@dataclass(frozen=True)
class _ShardPiece(_StepPiece):
    """A piece of one shard of a time step."""

    shard: int

    @property
    def name(self) -> str:
        """The name of the step and the number of the shard."""
        return f"{super().name}-{self.shard:05d}"

    def result(self, whole: ShardedStep) -> Path:
        """Return the path of the result."""
        return whole.path(self.kind.removeprefix("score-"), self.shard)


class SumShard(_ShardPiece):
    """Compute the sum of the gradients of the samples of a shard, and their squared norms."""

    kind = "score-sums"

    def work(self, whole: ShardedStep) -> None:
        """Sweep the shard once."""
        point = whole.point()
        at, load = whole.opened(point)
        total, norms = gradient_sums(at, lambda: load(whole.shards[self.shard]), point.groups)
        sums = {f"sum.{name}": value for name, value in total.items()}
        about = {"step": self.step, "shard": self.shard}
        write_state(self.result(whole), {**sums, _NORMS: torch.from_numpy(norms)}, about)


class MeanOfShards(_StepPiece):
    """Compute the mean gradient of a partition from the sums of its shards, added in their order."""

    kind = "score-mean"
    shards_read = ("sums-",)

    def work(self, whole: ShardedStep) -> None:
        """Add the sums and divide by the number of samples."""
        job = whole.job
        at = Point.of(job.model(self.seed), job.loss, None, job.parameter_filter)
        total: dict[str, torch.Tensor] = {}
        for shard in range(len(whole.shards)):
            state, _ = read_state(whole.path("sums", shard))
            for name in at.trained:
                own = state[f"sum.{name}"].to(at.device)
                total[name] = own if shard == 0 else total[name].add_(own)
        write_state(self.result(whole), mean_of(at, total, len(whole.positions)), {"step": self.step})


class DotsOfShard(_ShardPiece):
    """Compute the products of the mean gradient with the gradients of the samples of a shard."""

    kind = "score-dots"
    shards_read = ("mean-",)

    def work(self, whole: ShardedStep) -> None:
        """Sweep the shard a second time."""
        point = whole.point()
        at, load = whole.opened(point)
        state, _ = read_state(whole.path("mean"))
        mean = {name: value.to(at.device) for name, value in state.items()}
        dots = directional_derivatives(at, lambda: load(whole.shards[self.shard]), at.along(mean), point.groups)
        write_state(self.result(whole), {_DOTS: torch.from_numpy(dots)}, {"step": self.step, "shard": self.shard})


class TermsOfShards(_StepPiece):
    """Collect the terms of a step from its shards, and remove the intermediate results."""

    kind = "score-terms"
    shards_read = ("sums-", "dots-")

    def is_complete(self, job: Job) -> bool:
        """Return whether the terms are on disk and the intermediate results are removed."""
        whole = ShardedStep(job, self.seed, self.part, self.step)
        return whole.terms.exists() and not whole.folder.exists()

    def work(self, whole: ShardedStep) -> None:
        """Write the terms in the order of the shards, and remove the intermediate results."""
        if not whole.terms.exists():
            point, shards = whole.point(), range(len(whole.shards))
            norms = [read_state(whole.path("sums", shard))[0][_NORMS].numpy() for shard in shards]
            dots = [read_state(whole.path("dots", shard))[0][_DOTS].numpy() for shard in shards]
            terms = np.concatenate(dots, axis=1), np.concatenate(norms, axis=1)
            write_terms(whole.terms, checked(StepTerms(self.step, point.learning_rates, *terms), whole.positions))
        clear_away(whole.folder)
        if whole.folder.parent.exists() and not any(whole.folder.parent.iterdir()):
            clear_away(whole.folder.parent)


def sharded_rounds(job: Job) -> Iterator[list[Piece]]:
    """Yield the rounds of sharded scoring; the pieces of a round run in parallel, after all earlier rounds.

    A round covers the step of the same number in all partitions, and joins the products of one step with the sums of
    the next. So few rounds leave a cluster idle with a single small piece, and the sums of at most two steps per
    partition are kept.
    """
    steps = {
        (seed, part): job.time_steps(positions, seed).tolist()
        for seed in job.configuration.all_seeds()
        for part, positions in enumerate(job.partitions(seed))
    }

    def numbered(number: int) -> Sequence[ShardedStep]:
        return [ShardedStep(job, *of, own[number]) for of, own in steps.items() if 0 <= number < len(own)]

    def whole(kind: type[_StepPiece], number: int) -> list[Piece]:
        return [kind(one.seed, one.part, one.step) for one in numbered(number)]

    def by_shard(kind: type[_ShardPiece], number: int) -> list[Piece]:
        return [
            kind(one.seed, one.part, one.step, shard) for one in numbered(number) for shard in range(len(one.shards))
        ]

    for number in range(max(map(len, steps.values())) + 1):
        yield [*by_shard(DotsOfShard, number - 1), *by_shard(SumShard, number)]
        yield [*whole(TermsOfShards, number - 1), *whole(MeanOfShards, number)]
