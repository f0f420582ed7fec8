"""Shared by the working verbs: opening a job, choosing an executor, locking the directory."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from moso import errors
from moso.cli.executor_options import ExecutorOptions
from moso.configuration import Configuration
from moso.configuration.device import available_device
from moso.results.directory import RunDirectory
from moso.run.job import Job, Runtime
from moso.run.stages import Executor, begin
from moso.storage.store import is_address


def default_out(configuration: Configuration) -> Path:
    """Return the default run directory: a folder named after the data and the configuration."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", Path(configuration.dataset).name).strip("-") or "run"
    return Path("runs") / f"{name}-{configuration.digest()[:8]}"


@contextmanager
def working(job: Job, options: ExecutorOptions) -> Iterator[Executor]:
    """Lock and prepare the run directory, and yield an executor for its pieces.

    Under torchrun, processes other than the leading one follow it and exit instead.
    """
    if not options.leads:
        options.follow(job)
        raise typer.Exit
    if not options.is_remote:
        available_device(job.configuration.device)
    with job.directory.locked():
        begin(job)
        with options.executor_for(job.configuration) as executor:
            yield executor


def open_job(run: str, runtime: Runtime | None = None) -> Job:
    """Open the job of an existing run directory."""
    directory = RunDirectory.at(run)
    directory.pull()
    directory.configuration()
    return Job.open(directory, runtime=runtime)


def local_path(text: str | Path) -> Path:
    """Parse a flag's value as a path of this machine.

    Raises:
        OutputInvalid: The value is an address such as `s3://bucket/run`, which would become a folder of that name.
    """
    if is_address(text):
        raise errors.OutputInvalid(f"{text} is an address, and this is written on this machine alone; give a path")
    return Path(text)
