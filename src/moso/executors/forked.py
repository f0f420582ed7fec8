"""Worker processes that are copies of this one, for data and networks that only this process has."""

import multiprocessing
import multiprocessing.connection
import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

from moso import errors
from moso.errors import MosoError
from moso.progress import Progress, silent
from moso.quiet import quiet_notices
from moso.run.job import Job
from moso.run.pieces import Piece, perform


class ForkedProcesses:
    """Runs pieces in copies of this process, at most `workers` at a time, one copy per piece.

    A copy sees the data, the network and the loss of the caller without opening or pickling them. Only Linux copies a
    process safely, and only while nothing in it uses an accelerator or several threads.

    `between` is called before a piece starts, and may stop the run by raising an exception.
    """

    def __init__(self, workers: int, progress: Progress = silent) -> None:
        self.workers = workers
        self.progress = progress
        self.between: Callable[[], None] = lambda: None

    def run(self, job: Job, pieces: Sequence[Piece]) -> None:
        """Perform all pieces; the first failure stops the rest.

        Raises:
            MosoError: ``executor-unsuitable`` if this process cannot be copied, ``worker-lost`` if a copy died, and the
                error of a piece.
        """
        check_forking(job.configuration.device, job.configuration.threads)
        waiting, at_work, finished = deque(pieces), dict[Connection, multiprocessing.Process](), 0
        try:
            while waiting or at_work:
                while waiting and len(at_work) < self.workers:
                    self.between()
                    own, process = _started(job, waiting.popleft())
                    at_work[own] = process
                ready = set(multiprocessing.connection.wait(list(at_work)))
                for own in [own for own in at_work if own in ready]:
                    if self._is_done(own):
                        at_work.pop(own).join()
                        finished += 1
                        self.progress(pieces[0].label, finished, len(pieces))
        finally:
            for process in at_work.values():
                process.terminate()
                process.join()

    def _is_done(self, own: Connection) -> bool:
        """Read one message of a copy; return whether it was its last."""
        try:
            message = own.recv()
        except EOFError as problem:
            raise errors.WorkerLost(
                "a worker process died (killed, or out of memory?); start again to go on, perhaps with fewer workers"
            ) from problem
        if isinstance(message, tuple):
            self.progress(*message)
            return False
        if isinstance(message, BaseException):
            raise message
        return True


def check_forking(device: str, threads: int) -> None:
    """Refuse to copy this process where a copy could hang or fail.

    Raises:
        ExecutorUnsuitable: Not on Linux, on an accelerator, or with several threads per piece.
    """
    reason = ""
    if sys.platform != "linux":
        reason = "only Linux copies a process with its data"
    elif device != "cpu":
        reason = f"device {device!r} cannot be used by a copy of this process"
    elif threads > 1:
        reason = f"threads = {threads}, and copies of a process compute with one thread each"
    if reason:
        raise errors.ExecutorUnsuitable(
            f"several workers for data in memory are copies of this process, and {reason}; use workers=1, or moso run "
            "with data that it opens by name"
        )


def _started(job: Job, piece: Piece) -> tuple[Connection, multiprocessing.Process]:
    context = multiprocessing.get_context("fork")
    own, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(job, piece, theirs))
    with quiet_notices():  # Python 3.12 warns of copies of processes with threads; a copy here never uses them
        process.start()
    theirs.close()
    return own, process  # type: ignore[return-value]


def _work(job: Job, piece: Piece, tell: Connection) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_die_with, args=(parent.sentinel,), daemon=True).start()

    def report(label: str, done: float, total: float) -> None:
        tell.send((label, done, total))

    try:
        perform(job, piece, report)
    except MosoError as problem:
        tell.send(type(problem)(str(problem)))
    except OSError as problem:  # such as a full disk, which is not moso's error
        tell.send(problem)
    except Exception:  # noqa: BLE001 - whatever it is, the caller gets it with its traceback
        tell.send(RuntimeError(f"a worker process failed:\n{traceback.format_exc()}"))
    else:
        tell.send(None)
    finally:
        tell.close()


def _die_with(sentinel: int) -> None:
    # A worker that outlives a killed run would write into a directory that another run may have taken over.
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
