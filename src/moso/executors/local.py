"""Executors on this machine: one piece after the other in this process, or in parallel in worker processes."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, Self

from moso import errors
from moso.progress import Progress, silent
from moso.results.directory import RunDirectory
from moso.run.job import Job, Runtime
from moso.run.pieces import Piece, perform

# A copy of this process would inherit the state of PyTorch's threads and deadlock. A server that has imported all and
# computed nothing can be copied; without one, each process imports all by itself, which takes two seconds.
_METHOD = "forkserver" if sys.platform == "linux" and hasattr(os, "fork") else "spawn"


_LAST_WORDS_SECONDS = 2.0


def _nothing() -> None:
    return


class InProcess:
    """Runs one piece after the other in this process.

    `between` is called before each piece, and may stop the run by raising an exception.
    """

    def __init__(self, progress: Progress = silent) -> None:
        self.progress = progress
        self.between: Callable[[], None] = _nothing

    def run(self, job: Job, pieces: Sequence[Piece]) -> None:
        """Perform all pieces in order."""
        for number, piece in enumerate(pieces, 1):
            self.between()
            perform(job, piece, self.progress)
            self.progress(piece.label, number, len(pieces))


@contextmanager
def local_executor(workers: int, progress: Progress = silent) -> "Iterator[InProcess | LocalProcesses]":
    """Yield an executor with `workers` processes; with 1, pieces run in this process."""
    if workers == 1:
        yield InProcess(progress)
    else:
        with LocalProcesses(workers, progress) as processes:
            yield processes


class LocalProcesses:
    """Runs pieces in `workers` processes; each opens the run directory itself and writes its results there.

    Use it as a context manager: the processes live until its end, so that each loads the data once. `between` is called
    before a piece starts, and may stop the run by raising an exception.
    """

    def __init__(self, workers: int, progress: Progress = silent) -> None:
        self.workers = workers
        self.progress = progress
        self.between: Callable[[], None] = _nothing
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        context = multiprocessing.get_context(_METHOD)
        if _METHOD == "forkserver":
            context.set_forkserver_preload([__name__])
        self._messages = context.Queue()
        self._relay = threading.Thread(target=self._pass_on, daemon=True)
        self._relay.start()
        # A server that runs already has the environment of its start.
        begun_with = self._messages, dict(os.environ)
        self._pool = ProcessPoolExecutor(self.workers, context, _begin_worker, begun_with)
        return self

    def __exit__(self, *problem: object) -> None:
        assert self._pool is not None
        stopped = isinstance(problem[1], KeyboardInterrupt)
        if stopped:
            # A signal may have come to this process alone, and a worker goes on until its piece ends, perhaps hours.
            for process in list((self._pool._processes or {}).values()):
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._messages.put(None)
        self._relay.join(_LAST_WORDS_SECONDS if stopped else None)  # a terminated worker may hold the queue for ever
        self._messages.close()
        if stopped:
            self._messages.cancel_join_thread()
        else:
            self._messages.join_thread()

    def run(self, job: Job, pieces: Sequence[Piece]) -> None:
        """Perform all pieces, at most `workers` at a time; the first failure stops the rest.

        Raises:
            MosoError: ``worker-lost`` if a process died, ``executor-unsuitable``, and the error of a piece.
        """
        assert self._pool is not None, "use LocalProcesses as a context"
        job.directory.check_seen_by_others()
        directory = replace(job.directory, root=job.directory.root.resolve())
        waiting, at_work, finished = deque(pieces), set[Future[None]](), 0
        try:
            while waiting or at_work:
                while waiting and len(at_work) < self.workers:
                    self.between()
                    at_work.add(self._pool.submit(_work, directory, job.runtime, waiting.popleft()))
                done, at_work = wait(at_work, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                    finished += 1
                    self.progress(pieces[0].label, finished, len(pieces))
        except BrokenProcessPool as problem:
            raise errors.WorkerLost(
                "a worker process died (killed, or out of memory?); start again to go on, perhaps with fewer workers"
            ) from problem
        finally:
            for future in at_work:
                future.cancel()

    def _pass_on(self) -> None:
        while (message := self._messages.get()) is not None:
            self.progress(*message)


class _Worker:
    """State of a worker process: the queue for progress, and the time of the last report."""

    messages: "multiprocessing.Queue[Any] | None" = None
    reported = 0.0


def _begin_worker(messages: "multiprocessing.Queue[Any]", environment: Mapping[str, str]) -> None:
    _Worker.messages = messages
    # Ctrl-C reaches all processes of a terminal: a worker ends without a traceback, and its parent says what happened.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.update(environment)
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_die_with, args=(parent.sentinel,), daemon=True).start()


def _die_with(sentinel: int) -> None:
    # A worker that outlives a killed run would write into a directory that another run may have taken over.
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def _report(label: str, done: float, total: float) -> None:
    now = time.monotonic()
    if _Worker.messages is not None and (done >= total or now - _Worker.reported > 0.2):
        _Worker.reported = now
        _Worker.messages.put((label, done, total))


@lru_cache(maxsize=1)
def _job(directory: RunDirectory, runtime: Runtime) -> Job:
    return Job.open(directory, runtime=runtime)


def _work(directory: RunDirectory, runtime: Runtime, piece: Piece) -> None:
    perform(_job(directory, runtime), piece, _report)
