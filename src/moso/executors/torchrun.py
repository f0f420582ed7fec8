"""Executor in the processes that `torchrun` started.

All processes train a network or score a partition together; other pieces are distributed among them. The process of
rank 0 holds the run directory and broadcasts the next pieces; the others follow until it broadcasts the end. If one
process fails, torchrun stops the others.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import torch
import torch.distributed as dist

from moso import errors
from moso.evidence_kinds.registry import needed_kinds
from moso.progress import Progress, silent
from moso.run.job import Job
from moso.run.pieces import Piece, perform
from moso.training.team import Team


def torchrun_team() -> Team:
    """Return the team of torchrun's processes, with the rank of this one.

    Raises:
        MosoError: ``executor-unsuitable`` if torchrun did not start at least two processes.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) < 2:
        raise errors.ExecutorUnsuitable(
            "--executor torchrun is for processes that torchrun starts: "
            "torchrun --nproc-per-node 2 -m moso run --executor torchrun ..."
        )
    return Team(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))


class TorchRun:
    """Runs pieces in all processes of a `torchrun`: rank 0 calls `run`, the others call `follow`."""

    def __init__(self, progress: Progress = silent) -> None:
        self.progress = progress
        self.team = torchrun_team()

    def __enter__(self) -> Self:
        cuda = torch.cuda.is_available()
        if cuda:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if cuda else "gloo")
        return self

    def __exit__(self, *problem: object) -> None:
        if self.team.leads and problem[0] is None:
            self._say(None)
        dist.destroy_process_group()

    def run(self, job: Job, pieces: Sequence[Piece]) -> None:
        """Perform all pieces; called in the process of rank 0."""
        self._join(job)
        self._say(list(pieces))
        self._perform(job, pieces)

    def follow(self, job: Job) -> None:
        """Perform the pieces that rank 0 broadcasts until it broadcasts the end; called in the other processes."""
        self._join(job)
        while (pieces := self._say(None)) is not None:
            self._perform(job, pieces)

    def _join(self, job: Job) -> None:
        """Set the team of the job, and let followers write their own events file."""
        c = job.configuration
        if c.estimator == "in-run" or any(kind.moment == "training" for kind in needed_kinds(c.needs())):
            raise errors.ExecutorUnsuitable(
                "what is recorded of single samples while a network trains is not gathered from several processes; "
                "leave --executor torchrun out for in-run scores and for methods that follow training (tdds, aum, ...)"
            )
        if job.directory.copy is not None and int(os.environ["LOCAL_WORLD_SIZE"]) < self.team.size:
            raise errors.ExecutorUnsuitable(
                f"the processes of several machines go on from one saved position, and {job.directory} has none; give "
                "--out a path on a mount that all of them share, or start torchrun on one machine"
            )
        job.runtime = replace(job.runtime, team=self.team)
        if not self.team.leads:
            job.directory = replace(job.directory, writer=f"rank-{self.team.rank:03d}")

    def _say(self, pieces: list[Piece] | None) -> list[Piece] | None:
        """Broadcast the pieces of rank 0 to all processes and return them; None means the end."""
        return self.team.agreed(pieces)

    def _perform(self, job: Job, pieces: Sequence[Piece]) -> None:
        dealt = [piece for piece in pieces if not piece.is_shared(job)]
        mine = {piece.name for piece in dealt[self.team.rank :: self.team.size]}
        progress = self.progress if self.team.leads else silent
        for number, piece in enumerate(pieces, 1):
            if piece.is_shared(job) or piece.name in mine:
                perform(job, piece, progress)
            progress(piece.label, number, len(pieces))
        assert len({piece.stage for piece in pieces}) <= 1, "rounds are of one stage"
        dist.barrier()
