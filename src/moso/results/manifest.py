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
    vocabulary: int | None
    labels_drawn_at_random: list[int | str]


class StageNote(TypedDict, total=False):
    """Whether a stage is complete, and its seconds of computation."""

    complete: bool
    seconds: float


class Surroundings(TypedDict, total=False):
    """Versions of packages, and the machine."""

    versions: dict[str, str]
    machine: dict[str, str | int | None]


class PrunedNote(TypedDict):
    """Which selection `moso.prune` gave back, and of which data.

    Attributes:
        score: Name of the score; None for methods without one.
        temporary: Whether the run lies in a temporary folder.
        data: Fingerprint of the data as it was given.
        augmented: Whether the data augments by itself, so that its content is not part of the fingerprint.
        label: Name of the column or entry of the labels, if the user named one.
        items: Whether items were taken as the dataset gives them.
    """

    method: str
    selector: str
    score: str | None
    ratio: float
    temporary: bool
    data: str
    augmented: bool
    label: str | None
    items: bool


class Manifest(Surroundings, total=False):
    """Everything that is recorded about a run beyond its configuration."""

    format: int
    dataset: DataNote
    seeds: list[int]
    threads: int | None
    recipe: str
    stages: dict[str, StageNote]
    pruned: PrunedNote


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
    fingerprint: dict[str, str]


# What an event of a kind has beside time and name, for readers to rely on.
EVENT_ENTRIES: dict[str, dict[str, type | tuple[type, ...]]] = {
    "data": {"fingerprint": dict},
    "begun": {"stage": str, "pieces": int},
    "complete": {"stage": str},
    "computed": {"stage": str, "piece": str, "seconds": (int, float)},
    "measured": {"what": str, "piece": str},
    "failed": {"what": str, "piece": str, "sentence": str},
}
