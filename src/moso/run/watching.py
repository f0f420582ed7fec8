"""What others can see of a piece while it is at work: a small file that says how far it is, and who does it.

The run directory is the one channel: whoever sees it, on this machine or another, sees how the run goes.
"""

import contextlib
import hashlib
import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

from moso.errors import MosoError
from moso.files import TEMPORARY
from moso.progress import Progress
from moso.run.directory import RunDirectory

WATCH_SECONDS = 2.0
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


def running(root: Path) -> list[Running]:
    """The pieces at work in a run directory; one whose process was killed stays until it is done again."""
    found = []
    for path in sorted(_folder(root).glob("*.json")):
        # It may be done, and gone, by the time it is read.
        with contextlib.suppress(FileNotFoundError):
            found.append(Running(**json.loads(path.read_text(encoding="utf-8"))))
    return found


@contextmanager
def watched(
    directory: RunDirectory, stage: str, piece: str, progress: Progress, seconds: float = WATCH_SECONDS
) -> Iterator[Progress]:
    """A progress callable that leaves a sign of the piece now and every few seconds, and an event if it fails."""
    signs = _Signs(directory.root, stage, piece, progress, max(_LEAST_SECONDS, min(WATCH_SECONDS, seconds)))
    try:
        yield signs
    except MosoError as problem:
        directory.event("failed", what=stage, piece=piece, sentence=str(problem))
        raise
    finally:
        signs.end()


class _Signs:
    """Passes progress on, and writes it down now and then."""

    def __init__(self, root: Path, stage: str, piece: str, progress: Progress, seconds: float) -> None:
        self.stage, self.piece, self.progress, self.seconds = stage, piece, progress, seconds
        name = hashlib.blake2b(f"{stage} {piece}".encode(), digest_size=8).hexdigest()
        self.path = _folder(root) / f"{name}.json"
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
        # A sign that does not get through costs nothing; the next one comes.
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self.path.with_name(f".{self.path.name}.{uuid4().hex[:8]}{TEMPORARY}")
            temporary.write_text(json.dumps(asdict(sign)), encoding="utf-8")
            temporary.replace(self.path)

    def end(self) -> None:
        """Take the sign away; the last one takes the folder."""
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.parent.rmdir()


def _folder(root: Path) -> Path:
    return root / "state" / "running"
