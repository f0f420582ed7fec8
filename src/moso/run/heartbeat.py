"""Heartbeats: a small file per running piece with its progress, host and PID.

Progress is reported through the run directory only: every process that sees the directory, on this machine or another,
sees the progress of the run.
"""

import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from moso.errors import MosoError
from moso.progress import Progress
from moso.results.directory import RunDirectory

_LEAST_SECONDS = 0.2


@dataclass(frozen=True)
class Running:
    """The last heartbeat of a running piece.

    Attributes:
        stage: Kind of work.
        piece: Name of the piece.
        label: What the piece is doing, for people.
        done: Work done, out of `total`.
        total: All work.
        time: Unix time of the heartbeat, in seconds.
        host: Name of the machine.
        process: PID.
    """

    stage: str
    piece: str
    label: str
    done: float
    total: float
    time: float
    host: str
    process: int


def running(directory: RunDirectory) -> list[Running]:
    """Return the running pieces of a run; a piece whose process was killed stays until it is done again."""
    return [one for one in map(_read, directory.signs()) if one is not None]


def _read(text: str) -> Running | None:
    """Return the heartbeat of a text, or None if it is damaged; the next one follows in seconds."""
    try:
        found = Running(**json.loads(text))
        numbers = float(found.done), float(found.total), float(found.time)
    except (ValueError, TypeError, RecursionError):
        return None
    return found if all(map(math.isfinite, numbers)) and found.total > 0 else None


@contextmanager
def heartbeat(
    directory: RunDirectory, stage: str, piece: str, progress: Progress, seconds: float = math.inf
) -> Iterator[Progress]:
    """Yield a progress callable that writes a heartbeat at once and then every few seconds.

    A `MosoError` inside the block is recorded as an event `failed`.

    Args:
        directory: The run directory.
        stage: Kind of work.
        piece: Name of the piece.
        progress: Callable to which progress is passed on.
        seconds: Seconds between two heartbeats, if shorter than the interval of a run at a path.
    """
    often = directory.watch_seconds if directory.copy else max(_LEAST_SECONDS, min(directory.watch_seconds, seconds))
    signs = _Heartbeat(directory, stage, piece, progress, often)
    try:
        yield signs
    except MosoError as problem:
        directory.event("failed", what=stage, piece=piece, sentence=str(problem))
        raise
    finally:
        signs.end()


class _Heartbeat:
    """Passes progress on, and writes a heartbeat at most every `seconds`."""

    def __init__(self, directory: RunDirectory, stage: str, piece: str, progress: Progress, seconds: float) -> None:
        self.directory, self.stage, self.piece, self.progress, self.seconds = directory, stage, piece, progress, seconds
        self.name = f"{hashlib.blake2b(f'{stage} {piece}'.encode(), digest_size=8).hexdigest()}.json"
        self.said = time.monotonic()
        self._write(piece, 0, 1)

    def __call__(self, label: str, done: float, total: float) -> None:
        self.progress(label, done, total)
        now = time.monotonic()
        if now - self.said >= self.seconds:
            self.said = now
            self._write(label, done, total)

    def _write(self, label: str, done: float, total: float) -> None:
        sign = Running(self.stage, self.piece, label, done, total, time.time(), platform.node(), os.getpid())
        self.directory.show(self.name, json.dumps(asdict(sign)))

    def end(self) -> None:
        """Remove the heartbeat."""
        self.directory.hide(self.name)
