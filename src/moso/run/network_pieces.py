"""Training of networks as pieces of work: the surrogate of a partition, and references trained on all data.

Published methods take their evidence from references. The first reference is trained like a surrogate, to the end,
from the same recorded w_0; with a single partition it *is* the surrogate of that partition. Further references start
from other initialisations and are trained up to the early epoch, for scores that average initialisations. A network is
trained only if a chosen score or selector needs its evidence.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from moso.evidence import Recorder, terms_path, write_terms
from moso.evidence.estimators import IN_RUN
from moso.evidence.layout import piece_name, reference_name
from moso.evidence.trajectory import point_path
from moso.evidence_kinds.registry import needs_moments
from moso.evidence_kinds.step_terms import TERMS
from moso.evidence_kinds.training_adjoint import ADJOINT
from moso.models.adapters import is_adapter
from moso.progress import Progress
from moso.randomness import key
from moso.run.job import Job
from moso.run.pieces import PartitionPiece, Piece
from moso.run.training import Training, at_start, is_trained, train_network
from moso.training.in_run import InRun
from moso.training.loop import Callback
from moso.training.recording import RecordTrajectory


@dataclass(frozen=True)
class TrainSurrogate(PartitionPiece):
    """Train the surrogate of one partition and write its trajectory, its history and the requested evidence.

    Attributes:
        columns: Columns of training dynamics to record.
        early: Keep the network at the early epoch.
        final: Require the network at the end.
        replay: Keep the checkpoints from which the adjoint replays the training.
    """

    columns: tuple[str, ...] = ()
    early: bool = False
    final: bool = False
    replay: bool = False

    kind = "train"
    stage = "train"

    @property
    def name(self) -> str:
        """The name of the partition."""
        return piece_name(self.seed, self.folder)

    def training(self, job: Job) -> tuple[Path, Training]:
        """Return the folder of the seed, and the training with its requested results."""
        home, positions = job.directory.of_seed(job.configuration, self.seed), job.trained(self.seed)[self.part]
        replay = self.replay and not ADJOINT.is_complete(home, self.part)
        left = self.columns, self.early, self.final
        return home, Training(self.seed, self.folder, positions, self.seed, *left, replay=replay)

    def is_complete(self, job: Job) -> bool:
        """Return whether all requested results of the training are on disk."""
        return is_trained(*self.training(job)) and not self._lacks_points(job)

    def _lacks_points(self, job: Job) -> bool:
        """Return whether some recorded steps are gone (damaged, and set aside) and others are left.

        A trajectory that was removed as a whole is not wanted any more.
        """
        if job.configuration.estimator == IN_RUN:
            return False
        home, training = self.training(job)
        folder = home / "trajectory" / training.name
        there = [point_path(folder, step).exists() for step in job.time_steps(training.positions, self.seed)]
        return any(there) and not all(there)

    def perform(self, job: Job, progress: Progress) -> None:
        """Train, unless the requested results are on disk."""
        home, training = self.training(job)
        if self.is_complete(job):
            return
        if self._lacks_points(job):
            (home / "state" / training.name / "history.json").unlink(missing_ok=True)
        in_run = job.configuration.estimator == IN_RUN
        train_network(
            job,
            progress,
            training,
            at_start(job, self.seed),
            recording=_in_run(job, self.seed, self.part) if in_run else _recording(job, home, training),
            label=f"surrogate {self.part + 1}/{job.configuration.partitions}, seed {self.seed}",
        )


@dataclass(frozen=True)
class TrainReference(Piece):
    """Train a reference: the first (number 0) to the end, others up to the early epoch."""

    seed: int
    reference: int
    columns: tuple[str, ...] = ()

    kind = "reference"
    stage = "train"

    @property
    def name(self) -> str:
        """The name of the reference."""
        return piece_name(self.seed, reference_name(self.reference))

    def training(self, job: Job) -> tuple[Path, Training]:
        """Return the folder of the seed, and the training with its requested results."""
        everything, first = np.arange(len(job.data.train)), self.reference == 0
        everything = everything if job.trained_on is None else everything[job.trained_on]
        name, own = reference_name(self.reference), reference_seed(self.seed, self.reference)
        training = Training(self.seed, name, everything, own, self.columns, early=True, final=first, whole=first)
        return job.directory.of_seed(job.configuration, self.seed), training

    def is_complete(self, job: Job) -> bool:
        """Return whether all requested results of the training are on disk."""
        return is_trained(*self.training(job))

    def perform(self, job: Job, progress: Progress) -> None:
        """Train, unless the requested results are on disk."""
        _, training = self.training(job)
        model = at_start(job, self.seed) if self.reference == 0 else job.model(training.own_seed)
        count = f"{self.reference + 1}/{job.configuration.initialisations}"
        train_network(job, progress, training, model, label=f"reference {count}, seed {self.seed}")


def reference_seed(seed: int, reference: int) -> int:
    """Return the seed of initialisation, batches and augmentation of a reference; the first has the run's own seed.

    Example:
        >>> reference_seed(3, 0), reference_seed(3, 1) == reference_seed(3, 2)
        (3, False)
    """
    return seed if reference == 0 else key(seed, "initialisation", reference) % 2**31


def _recording(job: Job, home: Path, training: Training) -> Callback:
    """Return the callback that records the sampled steps of the training of a partition."""
    c = job.configuration
    recorder = Recorder(
        home / "trajectory" / training.name,
        total_steps=job.total_steps(training.positions),
        samples=c.time_steps,
        seed=training.seed,
        sampling=c.sampling,
        trainable_only=is_adapter(c.train),
        moments=c.optimizer_aware or needs_moments(c.needs()),
    )
    return RecordTrajectory(recorder)


def _in_run(job: Job, seed: int, part: int) -> InRun:
    folder = TERMS.path(job.directory.of_seed(job.configuration, seed), part)
    positions = job.partitions(seed)[part]
    return InRun(
        positions,
        job.time_steps(positions, seed),
        job.steps_per_epoch(positions),
        lambda terms: write_terms(terms_path(folder, terms.step), terms),
        job.parameter_filter,
    )
