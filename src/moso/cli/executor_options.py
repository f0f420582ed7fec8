"""Where and how the pieces of a run are done, as flags that every working verb has."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from moso import errors
from moso.cli.display import showing
from moso.cli.flags import Flags, Quiet
from moso.configuration import Configuration
from moso.executors import RayTasks, TorchRun, local_executor
from moso.executors.torchrun import torchrun_team
from moso.run.job import Job, Runtime
from moso.run.stages import Executor


@dataclass(frozen=True)
class ExecutorOptions(Flags):
    """Processes of this machine or tasks of a Ray cluster, how often they save, and how much is said."""

    loader_workers: Annotated[
        int, typer.Option("--loader-workers", min=0, help="decoding processes a training, for data beyond memory")
    ] = 2
    checkpoint_seconds: Annotated[
        float, typer.Option("--checkpoint-seconds", min=0, help="seconds between saved positions of a training")
    ] = 10.0
    quiet: Quiet = False
    workers: Annotated[
        int, typer.Option("--workers", min=0, help="pieces side by side; 0 = as many as fit the cores, or the cluster")
    ] = 0
    executor: Annotated[str, typer.Option("--executor", help="where pieces run: local, ray or torchrun")] = "local"
    address: Annotated[
        str | None,
        typer.Option("--address", help="ray: the cluster [a Ray of this machine alone]", show_default=False),
    ] = None
    cpus_per_partition: Annotated[
        float | None,
        typer.Option("--cpus-per-partition", min=0, help="ray: cores a piece takes [--threads]", show_default=False),
    ] = None
    gpus_per_partition: Annotated[
        float | None,
        typer.Option(
            "--gpus-per-partition", min=0, help="ray: GPUs a piece takes [1 on --device cuda]", show_default=False
        ),
    ] = None

    def __post_init__(self) -> None:
        """Refuse what no executor knows."""
        if self.executor not in ("local", "ray", "torchrun"):
            raise errors.UnknownName(f"--executor {self.executor} is not known; use local, ray or torchrun")
        for name in ("address", "cpus_per_partition", "gpus_per_partition"):
            if self.executor != "ray" and getattr(self, name) is not None:
                raise errors.SettingsConflict(f"--{name.replace('_', '-')} is for --executor ray")

    def worker_count(self, configuration: Configuration) -> int:
        """As many as asked; else one for each `threads` cores, and one where a single accelerator does the work."""
        if self.workers:
            return self.workers
        if configuration.device != "cpu":
            return 1
        return max(1, usable_cores() // configuration.threads)

    @property
    def runtime(self) -> Runtime:
        """How a piece does its work, without changing its result."""
        return Runtime(self.loader_workers, self.checkpoint_seconds)

    @property
    def is_remote(self) -> bool:
        """Whether the work may be done on other machines, with other devices, than this one."""
        return self.executor == "ray"

    @property
    def leads(self) -> bool:
        """Whether this process is the one that decides what is done; of those that torchrun starts, the first is."""
        return self.executor != "torchrun" or torchrun_team().leads

    def follow(self, job: Job) -> None:
        """Do what the leading process says until it has no more to say."""
        with TorchRun() as processes:
            processes.follow(job)

    @contextmanager
    def executor_for(self, configuration: Configuration) -> Iterator[Executor]:
        """An executor for the pieces of a run: a cluster's tasks, processes side by side, or this one alone."""
        with showing(self.quiet) as progress:
            if self.executor == "ray":
                with self._ray(configuration, progress) as tasks:
                    yield tasks
            elif self.executor == "torchrun":
                with TorchRun(progress) as together:
                    yield together
            else:
                with local_executor(self.worker_count(configuration), progress) as here:
                    yield here

    def _ray(self, configuration: Configuration, progress: Any) -> RayTasks:
        cpus, gpus = self.cpus_per_partition, self.gpus_per_partition
        if gpus is None:
            gpus = 1.0 if configuration.device.startswith("cuda") else 0.0
        return RayTasks(
            self.address,
            cpus=configuration.threads if cpus is None else cpus,
            gpus=gpus,
            workers=self.workers,
            progress=progress,
        )


def usable_cores() -> int:
    """Return the number of cores this process may use; where the system does not say, the number it has.

    Example:
        >>> usable_cores() >= 1
        True
    """
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
