"""The records of a run directory: what `manifest.json` and the lines of `events.jsonl` hold.

Every entry may be missing: a run that has not begun has no data yet, and runs of earlier versions have fewer entries.
"""

from typing import TypedDict

from moso.tasks.task import TaskNote


class DataNote(TaskNote, total=False):
    """What is recorded of the data: sizes of the splits, a fingerprint of each, the task and the shape of an input."""

    name: str
    fingerprint: dict[str, str]
    train: int
    test: int
    shape: list[int]
    vocabulary: int
    labels_drawn_at_random: list[int | str]


class StageNote(TypedDict, total=False):
    """Whether a stage is complete, and its seconds of computation."""

    complete: bool
    seconds: float


class Surroundings(TypedDict, total=False):
    """Versions of packages, and the machine."""

    versions: dict[str, str]
    machine: dict[str, str | int | None]


class Manifest(Surroundings, total=False):
    """Everything that is recorded about a run beyond its configuration."""

    format: int
    dataset: DataNote
    seeds: list[int]
    threads: int | None
    recipe: str
    stages: dict[str, StageNote]


class Event(TypedDict, total=False):
    """A line of `events.jsonl`; which entries it has beside the first two follows from `event`."""

    time: float
    event: str
    stage: str
    what: str
    piece: str
    pieces: int
    seconds: float
    peak: int | None
    epoch: int
    loss: float
    learning_rate: float
    sentence: str
    reason: str
