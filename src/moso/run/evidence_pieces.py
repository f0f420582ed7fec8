"""Evidence as pieces of work: one class for all kinds of evidence, and one for step terms, which a team shares."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import nn

from moso.data.samples import Samples
from moso.data.views import View
from moso.evidence import ParameterFilter, TrajectoryPoint, terms_path
from moso.evidence.layout import part_name, piece_name, reference_name
from moso.evidence_kinds import EvidenceKind
from moso.evidence_kinds.registry import KINDS
from moso.evidence_kinds.step_terms import TERMS
from moso.gradients import Loss, Risk
from moso.progress import Progress, silent
from moso.run.job import Job
from moso.run.pieces import PartitionPiece, Piece
from moso.run.scoring import score_partition, scoring_team
from moso.run.scoring_view import scored_trajectory, scoring_view
from moso.run.seed_evidence import SeedEvidence
from moso.run.training import at_start, checkpoints, computed, network, network_name
from moso.training.loop import Checkpoints, TrainingData


@dataclass(frozen=True)
class MeasureEvidence(Piece):
    """Measure one piece of a kind of evidence.

    Attributes:
        seed: Seed of the networks.
        evidence: Name of the kind.
        index: Number of the partition or initialisation.
        columns: Columns to measure, for kinds that have columns.
    """

    seed: int
    evidence: str
    index: int = 0
    columns: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The name of the evidence."""
        return self.evidence

    @property
    def folder(self) -> str:
        """The folder of the partition if the evidence is measured from one surrogate, otherwise empty."""
        return part_name(self.index) if KINDS.get(self.evidence).network == "surrogate" else ""

    @property
    def name(self) -> str:
        """The name of the network and of the evidence."""
        return piece_name(self.seed, f"{self.folder or reference_name(self.index)}/{self.evidence}")

    def is_complete(self, job: Job) -> bool:
        """Return whether the evidence is on disk, as the kind decides."""
        home = job.directory.of_seed(job.configuration, self.seed)
        return KINDS.get(self.evidence).is_complete(home, self.index, self.columns)

    def perform(self, job: Job, progress: Progress) -> None:
        """Measure, and record the seconds unless the kind trains a network, which records them itself."""
        kind, started = KINDS.get(self.evidence), time.monotonic()
        kind.measure(Measurement(job, self.seed, kind, self.index, self.columns, progress))
        price, label = kind.price(job.configuration), kind.label or kind.name
        if price is None or price.stage == "score":
            name = piece_name(self.seed, f"{self.folder or reference_name(self.index)}/{label}")
            computed(job, "score", name, time.monotonic() - started)
        progress(f"{label}, seed {self.seed}", 1, 1)


@dataclass(frozen=True)
class Measurement(SeedEvidence):
    """The inputs with which a kind measures its evidence; implements `evidence_kinds.Measuring`."""

    kind: EvidenceKind[object]
    index: int = 0
    columns: tuple[str, ...] = ()
    progress: Progress = silent

    @property
    def train(self) -> Samples:
        """The training data."""
        return self.job.data.train

    @property
    def loss(self) -> Loss:
        """The per-sample loss, `loss(model, batch) -> [batch]`."""
        return self.job.loss

    @property
    def loader_workers(self) -> int:
        """The number of processes that load data."""
        return self.job.runtime.loader_workers

    @property
    def checkpoint_seconds(self) -> float:
        """Seconds between two checkpoints of a long measurement."""
        return self.job.runtime.checkpoint_seconds

    def network(self, index: int | None = None) -> nn.Module:
        """Return the network that the kind is measured from, at the moment of training that the kind asks for.

        Args:
            index: Partition or initialisation in place of the one of this piece.
        """
        number = self.index if index is None else index
        of_partition = self.kind.network in ("surrogate", "surrogates")
        name = part_name(number) if of_partition else network_name(self.job, number)
        return network(self.job, self.seed, name, "early" if self.kind.moment == "early" else "final")

    def initial_network(self) -> nn.Module:
        """Return the network with the recorded initial weights w_0 of the seed."""
        return at_start(self.job, self.seed)

    def training_data(self) -> TrainingData:
        """Return the training data of the surrogate of partition `index`."""
        positions = self.job.trained(self.seed)[self.index]
        return self.job.training_data(self.settings.surrogate, positions, self.seed)

    def risk(self) -> Risk | None:
        """Return the risk that samples are judged by; None for the training risk of their partition."""
        return self.job.risk()

    @property
    def parameter_filter(self) -> ParameterFilter | None:
        """The filter by name of the parameters whose gradients are compared; None takes all."""
        return self.job.parameter_filter

    def sampled_steps(self) -> Iterator[tuple[View, TrajectoryPoint]]:
        """Yield the sampled steps of the surrogate of partition `index`, with the setting `view` applied."""
        for point in scored_trajectory(self.job, self.seed, self.index):
            yield scoring_view(self.job, self.seed, self.index, point)

    def checkpoints(self, path: Path) -> Checkpoints:
        """Return the checkpoints from which a training of this kind resumes; its seconds count as training."""
        return checkpoints(self.job, path, "train", piece_name(self.seed, self.kind.name))


@dataclass(frozen=True)
class ScorePartition(PartitionPiece):
    """Compute the step terms of one partition at every sampled step that has none yet."""

    kind = "score"

    @property
    def name(self) -> str:
        """The name of the partition."""
        return piece_name(self.seed, f"{self.folder}/score")

    def is_shared(self, job: Job) -> bool:
        """Return whether all processes of a team do the piece together."""
        return scoring_team(job).size > 1

    def is_complete(self, job: Job) -> bool:
        """Return whether every sampled step has its terms on disk."""
        given = SeedEvidence(job, self.seed)
        steps = map(partial(terms_path, TERMS.path(given.home, self.part)), given.time_steps(self.part))
        return all(path.exists() for path in steps)

    def perform(self, job: Job, progress: Progress) -> None:
        """Compute the missing terms."""
        score_partition(job, progress, self.seed, self.part)
