"""The status of a run, read from its directory only, so that any terminal or machine can show it."""

import time
from dataclasses import dataclass

from moso.evidence_kinds.registry import KINDS
from moso.results.directory import RunDirectory
from moso.results.manifest import Event, StageNote
from moso.results.working_copy import is_status_file
from moso.run.heartbeat import Running, running
from moso.run.network_pieces import TrainReference, TrainSurrogate
from moso.run.retraining_piece import Retrain
from moso.storage.lease import Holder

STAGES = ("train", "score", "select", "evaluate")
_STAGES: dict[str, str | None] = {one.kind: one.stage for one in (TrainSurrogate, TrainReference, Retrain)}


@dataclass(frozen=True)
class StageStatus:
    """The status of one stage since it was last started.

    Attributes:
        name: Name of the stage.
        complete: Whether all its pieces are done.
        seconds: Seconds of computation.
        pieces: Number of pieces at its last start; 0 if it was not started or had nothing left to do.
        done: Number of these pieces that are done.
        failures: Failed pieces with their messages.
        lost: How often a piece lost its worker.
        seconds_left: Estimated seconds to the end; None if not known.
    """

    name: str
    complete: bool
    seconds: float
    pieces: int
    done: int
    failures: tuple[str, ...]
    lost: int
    seconds_left: float | None


@dataclass(frozen=True)
class Status:
    """The status of all stages, the running pieces, and the holder of the lock, if there is one."""

    stages: tuple[StageStatus, ...]
    running: tuple[Running, ...]
    holder: Holder | None
    time: float


def status(directory: RunDirectory) -> Status:
    """Read the status of the run in a directory; the run need not have started.

    Raises:
        MosoError: ``not-a-run``, ``storage-failed``.
    """
    directory.pull(is_status_file)
    directory.configuration()
    events, now = directory.events(), time.time()
    noted = directory.manifest().get("stages", {})
    holder, at_work = directory.holder(), tuple(running(directory))
    stages = tuple(_stage(name, noted.get(name, {}), events, at_work, now, holder is not None) for name in STAGES)
    return Status(stages, at_work, holder, now)


def _stage(
    name: str,
    noted: StageNote,
    events: list[Event],
    at_work: tuple[Running, ...],
    now: float,
    held: bool,
) -> StageStatus:
    own = [event for event in events if _stage_of_event(event) == name]
    begun = [number for number, event in enumerate(own) if event["event"] == "begun"]
    since = own[begun[-1] :] if begun else []
    pieces = int(since[0]["pieces"]) if since else 0
    done = len({(event["what"], event["piece"]) for event in since if event["event"] == "measured"})
    complete = bool(noted.get("complete")) and not (since and all(event["event"] != "complete" for event in since))
    left = None
    if held and not complete and since:
        parts = done + sum(one.done / one.total for one in at_work if _stage_of(one.stage) == name)
        spent = max(0.0, now - float(since[0]["time"]))  # a clock may have been set back since
        left = spent * max(0.0, pieces - parts) / parts if parts > 0 else None
    return StageStatus(
        name,
        complete,
        float(noted.get("seconds", 0.0)),
        pieces,
        min(done, pieces),
        tuple(f"{event['piece']}: {event['sentence']}" for event in since if event["event"] == "failed"),
        sum(event["event"] == "lost" for event in since),
        left,
    )


def _stage_of_event(event: Event) -> str | None:
    if event["event"] in ("begun", "complete"):
        return str(event["stage"])
    return _stage_of(str(event.get("what")))


def _stage_of(what: str) -> str | None:
    """Return the stage of a kind of piece, or None if `what` is no kind of piece."""
    measures = what.partition("-")[0] == "score" or KINDS.find(what) is not None
    return _STAGES.get(what, "score" if measures else None)
