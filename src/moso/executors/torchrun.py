"""Pieces in the processes that `torchrun` started: all of them train a network and score a partition together, the rest
is dealt out.

The first process holds the run directory and says what is done next; the others follow until it says that nothing is.
If one fails, torchrun ends the others.
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
    """Which of torchrun's processes this one is."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) < 2:
        raise errors.ExecutorUnsuitable(
            "--executor torchrun is for processes that torchrun starts: "
            "torchrun --nproc-per-node 2 -m moso run --executor torchrun ..."
        )
    return Team(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))


class TorchRun:
    """Pieces by all processes of a `torchrun`; in the first one an executor, in the others a follower."""

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
        """Do all pieces; called in the first process."""
        self._join(job)
        self._say(list(pieces))
        self._perform(job, pieces)

    def follow(self, job: Job) -> None:
        """Do what the first process says until it says that nothing is left; called in the others."""
        self._join(job)
        while (pieces := self._say(None)) is not None:
            self._perform(job, pieces)

    def _join(self, job: Job) -> None:
        """The job knows its team, and followers write events of their own."""
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
        """What the first process says, in all of them."""
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
