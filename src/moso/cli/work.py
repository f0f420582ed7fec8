"""What the verbs that do work share: opening a job, choosing an executor, holding the directory."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from moso.cli.display import showing
from moso.executors import InProcess, LocalProcesses
from moso.run.configuration import Configuration
from moso.run.directory import RunDirectory
from moso.run.job import Effort, Job
from moso.run.stages import Executor, begin

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="run directory", show_default=False)]
Workers = Annotated[int, typer.Option("--workers", min=0, help="processes side by side; 0 = as many as fit the cores")]
LoaderWorkers = Annotated[
    int, typer.Option("--loader-workers", min=0, help="decoding processes a training, for data beyond memory")
]
CheckpointSeconds = Annotated[
    float, typer.Option("--checkpoint-seconds", min=0, help="seconds between saved positions of a training")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="no progress, no table")]
Methods = Annotated[list[str] | None, typer.Option("--method", help="method; may be repeated", show_default=False)]
Selectors = Annotated[
    list[str] | None, typer.Option("--selector", help="selector; may be repeated", show_default=False)
]
Ratios = Annotated[
    list[float] | None, typer.Option("--ratio", help="share to remove; may be repeated", show_default=False)
]


def default_out(configuration: Configuration) -> Path:
    """Where a run goes that was not told: a folder named after its data and its configuration."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", Path(configuration.dataset).name).strip("-") or "run"
    return Path("runs") / f"{name}-{configuration.digest()[:8]}"


@contextmanager
def working(job: Job, workers: int, quiet: bool) -> Iterator[Executor]:
    """The run directory, locked and found in order, and an executor for its pieces."""
    with job.directory.locked():
        begin(job)
        with executor_for(job.configuration, workers, quiet) as executor:
            yield executor


@contextmanager
def executor_for(configuration: Configuration, workers: int, quiet: bool) -> Iterator[Executor]:
    """Processes side by side, or this one alone."""
    count = worker_count(configuration, workers)
    with showing(quiet) as progress:
        if count == 1:
            yield InProcess(progress)
        else:
            with LocalProcesses(count, progress) as processes:
                yield processes


def worker_count(configuration: Configuration, workers: int) -> int:
    """As many as asked; else one for each `threads` cores, and one where a single accelerator does the work."""
    if workers:
        return workers
    if configuration.device != "cpu":
        return 1
    return max(1, len(os.sched_getaffinity(0)) // configuration.threads)


def open_job(run: Path, effort: Effort | None = None) -> Job:
    """The job of a run directory that is already there."""
    RunDirectory(run).configuration()
    return Job.open(run, effort=effort)


def asked_pairs(job: Job, methods: list[str] | None, selectors: list[str] | None) -> list[tuple[str, str]]:
    """The (method, selector) pairs a user asked for; without a word, those of the configuration."""
    if not methods and not selectors:
        return job.configuration.pairs()
    settings = {"methods": tuple(methods or job.configuration.methods), "selectors": tuple(selectors or ())}
    asked = job.configuration.model_copy(update=settings)
    asked.check()
    return [pair for pair in asked.pairs() if pair[0] in asked.methods]
