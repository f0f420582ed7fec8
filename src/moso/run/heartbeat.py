"""What others can see of a piece while it is at work: a small file that says how far it is, and who does it.

The run directory is the one channel: whoever sees it, on this machine or another, sees how the run goes.
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
    """A piece at work, as it last said."""

    stage: str
    piece: str
    label: str
    done: float
    total: float
    time: float
    host: str
    process: int


def running(directory: RunDirectory) -> list[Running]:
    """The pieces at work in a run; one whose process was killed stays until it is done again."""
    return [Running(**json.loads(text)) for text in directory.signs()]


@contextmanager
def heartbeat(
    directory: RunDirectory, stage: str, piece: str, progress: Progress, seconds: float = math.inf
) -> Iterator[Progress]:
    """A progress callable that leaves a sign of the piece now and every few seconds, and an event if it fails."""
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
    """Passes progress on, and writes it down now and then."""

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
        """Take the sign away."""
        self.directory.hide(self.name)
