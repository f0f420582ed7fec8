"""A piece of work of a run: independent, performed by any process, and repeatable after a kill.

A piece writes its result into the run directory and is complete when the result is there. It takes its inputs from the
job; executors do not depend on what a piece does. One class per kind: networks (`network_pieces.py`), evidence
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
# Folders of large files that belong to one partition.
_LARGE = {"trajectory", "replay", "shards"}


class Piece(ABC):
    """A piece of work: a small frozen dataclass, pickled for other processes, that names the work and its inputs."""

    stage: Stage = "score"
    shards_read: tuple[str, ...] = ()
    """Prefixes of the files in a folder of shards that this piece reads."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of work, as events and heartbeats name it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the piece, unique among those of its kind."""

    @abstractmethod
    def perform(self, job: Job, progress: Progress) -> None:
        """Do the work."""

    @abstractmethod
    def is_complete(self, job: Job) -> bool:
        """Return whether the result is on disk."""

    @property
    def folder(self) -> str:
        """The folder of the partition that it works on; empty if it does not belong to one partition."""
        return ""

    @property
    def label(self) -> str:
        """The name of the stage, for people."""
        return _STAGE_LABELS[self.stage]

    def is_shared(self, job: Job) -> bool:
        """Return whether all processes of a team do the piece together."""
        return self.stage != "score"

    def wants(self, file: str) -> bool:
        """Return whether the piece may read a file of the run; large files are for pieces of the same partition."""
        *folders, last = file.split("/")
        if not _LARGE & set(folders):
            return True
        return self.folder in folders and ("shards" not in folders or last.startswith(self.shards_read))


@dataclass(frozen=True)
class PartitionPiece(Piece):
    """A piece of work on one partition."""

    seed: int
    part: int

    @property
    def folder(self) -> str:
        """The folder of the partition."""
        return part_name(self.part)


def perform(job: Job, piece: Piece, progress: Progress) -> None:
    """Perform a piece with the configured number of threads; write heartbeats and record its cost.

    Args:
        job: The job of the run.
        piece: The piece.
        progress: Called as work advances.
    """
    seen = heartbeat(job.directory, piece.kind, piece.name, progress, job.runtime.checkpoint_seconds)
    with (
        job.directory.shared(piece.wants),
        threads(job.configuration.threads),
        record_cost(job.directory, piece.kind, piece.name),
        seen as watching,
    ):
        piece.perform(job, watching)
