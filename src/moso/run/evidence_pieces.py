"""Evidence as pieces of work: one class for every kind of evidence, and one for step terms, which a team shares."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import nn

from moso.data.samples import Samples
from moso.evidence import terms_path
from moso.evidence.layout import part_name, piece_name, reference_name
from moso.evidence_kinds import EvidenceKind
from moso.evidence_kinds.registry import KINDS
from moso.evidence_kinds.step_terms import TERMS
from moso.gradients import Loss, Risk
from moso.progress import Progress, silent
from moso.run.job import Job
from moso.run.pieces import PartitionPiece, Piece
from moso.run.scoring import score_partition, scoring_team
from moso.run.seed_evidence import SeedEvidence
from moso.run.training import at_start, checkpoints, computed, network, network_name
from moso.training.loop import Checkpoints, TrainingData


@dataclass(frozen=True)
class MeasureEvidence(Piece):
    """Measure one piece of a kind of evidence; `index` is its partition or initialisation."""

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
        """The partition's folder, of evidence that is measured from one surrogate."""
        return part_name(self.index) if KINDS.get(self.evidence).network == "surrogate" else ""

    @property
    def name(self) -> str:
        """The network's name and the evidence's."""
        return piece_name(self.seed, f"{self.folder or reference_name(self.index)}/{self.evidence}")

    def is_complete(self, job: Job) -> bool:
        """Whether the kind finds it complete."""
        home = job.directory.of_seed(job.configuration, self.seed)
        return KINDS.get(self.evidence).is_complete(home, self.index, self.columns)

    def perform(self, job: Job, progress: Progress) -> None:
        """Measure, and note the seconds unless a training of the kind's own notes them."""
        kind, started = KINDS.get(self.evidence), time.monotonic()
        kind.measure(Measurement(job, self.seed, kind, self.index, self.columns, progress))
        price, label = kind.price(job.configuration), kind.label or kind.name
        if price is None or price.stage == "score":
            name = piece_name(self.seed, f"{self.folder or reference_name(self.index)}/{label}")
            computed(job, "score", name, time.monotonic() - started)
        progress(f"{label}, seed {self.seed}", 1, 1)


@dataclass(frozen=True)
class Measurement(SeedEvidence):
    """What a kind is given to measure itself (`evidence_kinds.Measuring`)."""

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
        """The loss, `loss(model, batch) -> [batch]`."""
        return self.job.loss

    @property
    def loader_workers(self) -> int:
        """The processes that load data."""
        return self.job.runtime.loader_workers

    @property
    def checkpoint_seconds(self) -> float:
        """How often a long measurement saves where it is."""
        return self.job.runtime.checkpoint_seconds

    def network(self, index: int | None = None) -> nn.Module:
        """The network that the kind is measured from, at its moment; of another index if one is given."""
        number = self.index if index is None else index
        of_partition = self.kind.network in ("surrogate", "surrogates")
        name = part_name(number) if of_partition else network_name(self.job, number)
        return network(self.job, self.seed, name, "early" if self.kind.moment == "early" else "final")

    def initial_network(self) -> nn.Module:
        """The network at the recorded w_0 of the seed."""
        return at_start(self.job, self.seed)

    def training_data(self) -> TrainingData:
        """What the surrogate of the partition `index` learns from."""
        return self.job.training_data(self.settings.surrogate, self.partitions[self.index], self.seed)

    def risk(self) -> Risk | None:
        """The risk that samples are judged by where it is not their partition's own."""
        return self.job.risk()

    def checkpoints(self, path: Path) -> Checkpoints:
        """Where a training of the kind's own goes on after a kill; its seconds count as training."""
        return checkpoints(self.job, path, "train", piece_name(self.seed, self.kind.name))


@dataclass(frozen=True)
class ScorePartition(PartitionPiece):
    """Measure the step terms of one partition at every sampled step that has none yet."""

    kind = "score"

    @property
    def name(self) -> str:
        """The partition's name."""
        return piece_name(self.seed, f"{self.folder}/score")

    def is_shared(self, job: Job) -> bool:
        """Whether all processes of a team do it together."""
        return scoring_team(job).size > 1

    def is_complete(self, job: Job) -> bool:
        """Whether every sampled step has its terms."""
        given = SeedEvidence(job, self.seed)
        steps = map(partial(terms_path, TERMS.path(given.home, self.part)), given.time_steps(self.part))
        return all(path.exists() for path in steps)

    def perform(self, job: Job, progress: Progress) -> None:
        """Measure what is missing."""
        score_partition(job, progress, self.seed, self.part)
