"""`moso status`: the progress of a run, from any terminal or machine that can read its directory."""

import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moso.cli.options.flags import Json, RunArgument, option
from moso.cli.options.panels import OUTPUT

if TYPE_CHECKING:
    from moso.analysis.run_status import StageStatus, Status
    from moso.results.directory import RunDirectory

Watch = Annotated[
    float | None, option("--watch", panel=OUTPUT, min=0.1, help="repeat every so many seconds while the run is running")
]
Board = Annotated[
    Path | None,
    option("--tensorboard", panel=OUTPUT, help="folder to write losses and progress to, for TensorBoard"),
]


def status(
    run: RunArgument,
    watch: Watch = None,
    tensorboard: Board = None,
    as_json: Json = False,
) -> None:
    """Say how a run stands: what is done, what is at work and where, what failed, how long it will take."""
    from moso.analysis.live_scalars import Scalars
    from moso.analysis.run_status import status as standing
    from moso.results.directory import RunDirectory

    # A few small files are copied to a scratch folder of their own: the local copy of a run in progress may be busy
    # with large files.
    with tempfile.TemporaryDirectory(prefix="moso-status-") as scratch:
        directory = RunDirectory.at(run, scratch=Path(scratch))
        scalars = None if tensorboard is None else Scalars(tensorboard)
        while True:
            found = standing(directory)
            if scalars is not None:
                scalars.write(directory.events())
            typer.echo(json.dumps(asdict(found)) if as_json else "\n".join(_lines(directory, found)))
            if watch is None or found.holder is None:
                break
            time.sleep(watch)
        if scalars is not None:
            scalars.close()


def _lines(directory: "RunDirectory", found: "Status") -> list[str]:
    lines = [f"{directory}: {_holder(found)}"]
    for stage in found.stages:
        lines.append(f"  {stage.name:<9} {_stage(stage)}")
        lines += [f"    failed: {sentence}" for sentence in stage.failures]
    for one in found.running:
        ago = max(0.0, found.time - one.time)
        where = f"{one.host} process {one.process}"
        lines.append(f"    {one.label}: {one.done / one.total:.0%}, {where}, last heartbeat {ago:.0f} s ago")
    return lines


def _holder(found: "Status") -> str:
    if found.holder is None:
        return "idle"
    ago = max(0.0, found.time - found.holder.renewed)
    return f"running (process {found.holder.process} on {found.holder.host}, last heartbeat {ago:.0f} s ago)"


def _stage(stage: "StageStatus") -> str:
    lost = f", {stage.lost} restarted after their worker died" if stage.lost else ""
    if stage.complete:
        return f"complete, {stage.seconds:.1f} s of computation{lost}"
    if not stage.pieces:
        return "not started"
    left = "" if stage.seconds_left is None else f", about {stage.seconds_left:.0f} s left"
    failed = f", {len(stage.failures)} failed" if stage.failures else ""
    return f"{stage.done} of {stage.pieces} done{failed}{lost}{left}"
