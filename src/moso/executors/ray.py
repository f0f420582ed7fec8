"""Executor on a Ray cluster: one task per piece.

Results go to the run directory, which every machine must see at the same path or address. A piece whose worker or
machine dies is submitted again and resumes from the run directory. A piece that raises an error stops the run at once
with that error.
"""

import os
import platform
import socket
import time
import warnings
from collections import Counter, deque
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Self

from moso import errors
from moso.configuration import CUSTOM
from moso.progress import Progress, silent
from moso.results.directory import RunDirectory
from moso.results.working_copy import is_status_file
from moso.run.heartbeat import running
from moso.run.job import Job, Runtime
from moso.run.pieces import Piece, perform

# How often one piece may lose its worker before the run stops; some data kills every process that reads it.
MOST_DEATHS = 5
_LOOK_SECONDS = 0.5


class RayTasks:
    """Runs pieces on the machines of a Ray cluster.

    Use it as a context manager: workers live until its end, so that each loads the data once.

    Args:
        address: Address of the cluster; None starts Ray on this machine only.
        cpus: CPUs per piece.
        gpus: GPUs per piece.
        workers: Largest number of pieces at a time; 0 sets no limit.
        progress: Called as work advances.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        cpus: float = 1,
        gpus: float = 0,
        workers: int = 0,
        progress: Progress = silent,
    ) -> None:
        self.address, self.cpus, self.gpus, self.workers, self.progress = address, cpus, gpus, workers, progress
        self._ray: Any = None
        self._shown = 0.0

    def __enter__(self) -> Self:
        if find_spec("ray") is None:
            raise errors.package_missing("ray", "ray", "--executor ray")
        return self

    def __exit__(self, *problem: object) -> None:
        if self._ray is not None:
            self._ray.shutdown()

    def _start(self) -> None:
        """Connect before the first piece, so that a run with nothing left to do needs no cluster."""
        import ray
        import ray.exceptions

        _connect(ray, self.address, self.workers * self.cpus)
        self._ray = ray
        self._check_resources()
        # Ray retries tasks that ran out of memory without limit: lost workers are counted here instead.
        options = {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_retries": 0, "scheduling_strategy": "SPREAD"}
        self._task = ray.remote(_work).options(**options)

    def run(self, job: Job, pieces: Sequence[Piece]) -> None:
        """Perform all pieces on the cluster; the first piece that raises an error stops the rest.

        Raises:
            MosoError: ``executor-unsuitable``, ``cluster-unreachable``, ``worker-lost``, and the error of a piece.
        """
        if job.build or job.task.is_own or job.own_risk or CUSTOM in _names(job):
            raise errors.ExecutorUnsuitable(
                "data, networks and losses that exist in this process alone cannot be sent to a cluster; give data by "
                "name or path and a network as package.module:factory, with `moso run --executor ray`"
            )
        if self._ray is None:
            self._start()
        job.directory.check_seen_by_others()
        holder = job.directory.holder()
        place = str(job.directory.root.resolve()) if job.directory.copy is None else str(job.directory)
        given = place, job.runtime, None if holder is None else holder.owner
        waiting, deaths, at_work = deque(pieces), Counter[str](), dict[Any, Piece]()
        done = 0
        try:
            while waiting or at_work:
                while waiting and (not self.workers or len(at_work) < self.workers):
                    piece = waiting.popleft()
                    at_work[self._task.remote(*given, piece)] = piece
                for reference in self._ray.wait(list(at_work), timeout=_LOOK_SECONDS)[0]:
                    piece = at_work.pop(reference)
                    if self._finished(job, reference, piece, deaths):
                        done += 1
                        self.progress(piece.label, done, len(pieces))
                    else:
                        waiting.append(piece)
                self._show(job, at_work.values())
        finally:
            for reference in at_work:
                self._ray.cancel(reference, force=True)
        job.directory.pull()

    def _finished(self, job: Job, reference: Any, piece: Piece, deaths: Counter[str]) -> bool:
        """Return whether a piece is finished; False means that it lost its worker and must be submitted again."""
        of_ray = self._ray.exceptions
        try:
            self._ray.get(reference)
        except of_ray.RayTaskError as problem:
            if isinstance(problem.cause, Exception):
                raise problem.cause from None
            raise
        except of_ray.RayError as problem:
            deaths[piece.name] += 1
            job.directory.event("lost", what=piece.kind, piece=piece.name, reason=type(problem).__name__)
            if deaths[piece.name] > MOST_DEATHS:
                raise errors.WorkerLost(
                    f"{piece.name} lost its worker {deaths[piece.name]} times (killed, or out of memory?), the last "
                    f"time by {type(problem).__name__}; look at its machine, then start again to go on"
                ) from problem
            return False
        return True

    def _show(self, job: Job, pieces: Any) -> None:
        """Report the progress of running pieces from their heartbeats in the run directory."""
        now = time.monotonic()
        if self.progress is silent or now - self._shown < job.directory.watch_seconds:
            return
        self._shown = now
        names = {(piece.kind, piece.name) for piece in pieces}
        for one in running(job.directory):
            if (one.stage, one.piece) in names and one.done < one.total:
                self.progress(one.label, one.done, one.total)

    def _check_resources(self) -> None:
        wanted = {"CPU": self.cpus, "GPU": self.gpus}
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(all(own.get(kind, 0) >= count for kind, count in wanted.items()) for own in machines):
            warnings.warn(
                f"no machine of the Ray cluster has the {self.cpus:g} CPUs and {self.gpus:g} GPUs that a piece is to "
                "have; waiting for one (otherwise give --cpus-per-partition, --gpus-per-partition)",
                stacklevel=2,
            )


def _names(job: Job) -> tuple[str, str, str]:
    return job.configuration.dataset, job.configuration.model, job.data.name


def _connect(ray: Any, address: str | None, cpus: float) -> None:
    common = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    # Disable Ray's usage statistics: nothing about a user's run leaves the cluster.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is None:
        # "local" ignores an environment variable that points to a cluster, which the user did not ask for.
        ray.init(address="local", num_cpus=int(-(-cpus // 1)) if cpus else None, **common)
        return
    try:
        _reach(address)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, ValueError, RuntimeError) as problem:
        raise errors.ClusterUnreachable(
            f"there is no Ray cluster at --address {address} ({_first_line(problem)})"
        ) from problem


def _reach(address: str) -> None:
    """Check that host:port accepts connections, because Ray itself retries for most of a minute."""
    host, colon, port = address.rpartition(":")
    if colon and "/" not in address and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _first_line(problem: Exception) -> str:
    return str(problem).strip().partition("\n")[0]


class _Guard:
    """Stops a task whose run was taken over by another process, which does the same work."""

    def __init__(self, job: Job, owner: str | None) -> None:
        self.job, self.owner, self.looked = job, owner, time.monotonic()

    def __call__(self, label: str, done: float, total: float) -> None:
        now = time.monotonic()
        if self.owner is None or now - self.looked < self.job.directory.watch_seconds:
            return
        self.looked = now
        holder = self.job.directory.holder()
        if holder is not None and holder.owner != self.owner:
            raise errors.RunLocked(f"{self.job.directory} is now locked by another moso; this worker's run has ended")


@lru_cache(maxsize=1)
def _job(place: str, runtime: Runtime) -> Job:
    directory = RunDirectory.at(place, f"{platform.node()}-{os.getpid()}")
    if directory.copy is None and not directory.root.is_dir():
        raise errors.ClusterUnreachable(
            f"{platform.node()} does not see {place}; the run directory of a cluster must be on a mount that all its "
            "machines share, under one path, or at an address (--out s3://bucket/run)"
        )
    directory.pull(is_status_file)
    return Job.open(directory, runtime=runtime)


def _work(place: str, runtime: Runtime, owner: str | None, piece: Piece) -> None:
    job = _job(place, runtime)
    perform(job, piece, _Guard(job, owner))
