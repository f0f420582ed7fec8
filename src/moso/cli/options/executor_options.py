"""Flags of all working verbs: where and how the pieces of a run are executed."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from moso import errors
from moso.cli.options.flags import Flags, Quiet, option
from moso.cli.options.panels import PLACE
from moso.progress import Progress

if TYPE_CHECKING:
    from moso.configuration import Configuration
    from moso.executors import RayTasks
    from moso.run.job import Job, Runtime
    from moso.run.stages import Executor


_MOST = 1024  # processes, beyond which a machine stops answering


@dataclass(frozen=True)
class ExecutorOptions(Flags):
    """Where pieces run (processes of this machine, Ray, torchrun), how often they save, and how much is printed."""

    quiet: Quiet = False
    workers: Annotated[
        int,
        option(
            "--workers",
            panel=PLACE,
            min=0,
            max=_MOST,
            help="pieces in parallel; 0 for one per --threads cores [default: 0]",
        ),
    ] = 0
    loader_workers: Annotated[
        int,
        option(
            "--loader-workers",
            panel=PLACE,
            min=0,
            max=_MOST,
            help="processes per training that decode data too large for memory",
        ),
    ] = 2
    checkpoint_seconds: Annotated[
        float,
        option("--checkpoint-seconds", panel=PLACE, min=0, max=1e9, help="seconds between checkpoints of a training"),
    ] = 10.0
    executor: Annotated[str, option("--executor", panel=PLACE, help="where pieces run: local, ray or torchrun")] = (
        "local"
    )
    address: Annotated[
        str | None, option("--address", panel=PLACE, help="ray: address of the cluster [default: this machine]")
    ] = None
    cpus_per_partition: Annotated[
        float | None,
        option("--cpus-per-partition", panel=PLACE, min=0, help="ray: cores per piece [default: --threads]"),
    ] = None
    gpus_per_partition: Annotated[
        float | None,
        option("--gpus-per-partition", panel=PLACE, min=0, help="ray: GPUs per piece [default: 1 on --device cuda]"),
    ] = None

    trust: Annotated[
        bool,
        option("--trust", panel=PLACE, help="run code that a file names (package.module:factory), see SECURITY.md"),
    ] = False

    def __post_init__(self) -> None:
        """Check the flags.

        Raises:
            UnknownName: The executor does not exist.
            SettingsConflict: A flag of Ray is given for another executor.
        """
        if self.executor not in ("local", "ray", "torchrun"):
            raise errors.UnknownName(f"--executor {self.executor} is not known; use local, ray or torchrun")
        for name in ("address", "cpus_per_partition", "gpus_per_partition"):
            if self.executor != "ray" and getattr(self, name) is not None:
                raise errors.SettingsConflict(f"--{name.replace('_', '-')} is for --executor ray")

    def worker_count(self, configuration: "Configuration") -> int:
        """Return the number of workers: as requested, else one per `threads` cores, or one on a single accelerator."""
        if self.workers:
            return self.workers
        if configuration.device != "cpu":
            return 1
        return max(1, usable_cores() // configuration.threads)

    @property
    def runtime(self) -> "Runtime":
        """How pieces of work run, without effect on their results."""
        from moso.run.job import Runtime

        return Runtime(self.loader_workers, self.checkpoint_seconds)

    @property
    def is_remote(self) -> bool:
        """Whether the work may run on other machines, with other devices than this one."""
        return self.executor == "ray"

    @property
    def leads(self) -> bool:
        """Whether this process decides what is done; under torchrun, only the first process does."""
        from moso.executors.torchrun import torchrun_team

        return self.executor != "torchrun" or torchrun_team().leads

    def follow(self, job: "Job") -> None:
        """Execute the work that the leading process sends, until it has no more."""
        from moso.executors import TorchRun

        with TorchRun() as processes:
            processes.follow(job)

    @contextmanager
    def executor_for(
        self, configuration: "Configuration", planned: Mapping[str, int] | None = None
    ) -> "Iterator[Executor]":
        """Yield an executor for the pieces of a run: Ray tasks, torchrun or local processes, or this process alone.

        Args:
            configuration: The configuration of the run.
            planned: Number of pieces by the label of their stage, for the bar of the whole command.
        """
        from moso.cli.display import showing
        from moso.executors import TorchRun, local_executor

        with showing(self.quiet, planned) as progress:
            if self.executor == "ray":
                with self._ray(configuration, progress) as tasks:
                    yield tasks
            elif self.executor == "torchrun":
                with TorchRun(progress) as together:
                    yield together
            else:
                with local_executor(self.worker_count(configuration), progress) as here:
                    yield here

    def _ray(self, configuration: "Configuration", progress: Progress) -> "RayTasks":
        from moso.executors import RayTasks

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
    """Return the number of cores that this process may use, or the machine's cores if the system does not say.

    Example:
        >>> usable_cores() >= 1
        True
    """
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
