"""A piece of a run's work: what can be done on its own, by any process, again after a kill.

A piece writes its result where the run directory says and is complete when that is there. It finds what it needs in the
job; executors know nothing of what it does. One class per kind: networks (`network_pieces.py`), evidence
(`evidence_pieces.py`), shards of scoring (`sharding.py`), retrainings (`retraining_piece.py`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from moso.evidence.layout import part_name
from moso.evidence_kinds.kind import Stage
from moso.progress import Progress
from moso.run.heartbeat import heartbeat
from moso.run.job import Job
from moso.run.profiling import record_cost
from moso.training.loop import threads

_STAGE_LABELS: dict[Stage, str] = {"train": "all networks", "score": "all scoring", "evaluate": "all retraining"}
# Folders of what is large and of one partition.
_LARGE = {"trajectory", "replay", "shards"}


class Piece(ABC):
    """A piece of work: a small frozen dataclass that says what is done and on what; processes pickle it."""

    stage: Stage = "score"
    shards_read: tuple[str, ...] = ()
    """How the names of those files begin that other pieces left in a folder of shards for this one."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of work, as events and signs of life call it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What this very piece is called."""

    @abstractmethod
    def perform(self, job: Job, progress: Progress) -> None:
        """Do the work."""

    @abstractmethod
    def is_complete(self, job: Job) -> bool:
        """Whether its result is there."""

    @property
    def folder(self) -> str:
        """The folder of the partition that it works on; empty if it is about no partition alone."""
        return ""

    @property
    def label(self) -> str:
        """What a person calls its stage."""
        return _STAGE_LABELS[self.stage]

    def is_shared(self, job: Job) -> bool:
        """Whether all processes of a team do it together."""
        return self.stage != "score"

    def wants(self, file: str) -> bool:
        """Whether it may look at a file of the run: what is large is for the pieces of its own partition alone."""
        *folders, last = file.split("/")
        if not _LARGE & set(folders):
            return True
        return self.folder in folders and ("shards" not in folders or last.startswith(self.shards_read))


@dataclass(frozen=True)
class PartitionPiece(Piece):
    """A piece of one partition's work."""

    seed: int
    part: int

    @property
    def folder(self) -> str:
        """The partition's folder."""
        return part_name(self.part)


def perform(job: Job, piece: Piece, progress: Progress) -> None:
    """Do a piece of work with the configured number of threads."""
    seen = heartbeat(job.directory, piece.kind, piece.name, progress, job.runtime.checkpoint_seconds)
    with (
        job.directory.shared(piece.wants),
        threads(job.configuration.threads),
        record_cost(job.directory, piece.kind, piece.name),
        seen as watching,
    ):
        piece.perform(job, watching)
