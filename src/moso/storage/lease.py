"""A lease on a run directory: a lock that names its holder, who renews it every few seconds (heartbeat).

A lease ends with its holder: at once if the holder was a process of this machine that no longer exists, otherwise when
the lease has not been renewed for `EXPIRY_SECONDS`. The clocks of two machines need not agree, and may be set back: a
process that wants the lease watches it for a change by its own monotonic clock, whatever the time of the last renewal.

Hand-made although filelock offers locks: locks are not always shared by the machines of a mount, and object stores have
none.
"""

import contextlib
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from moso import errors
from moso.errors import MosoError
from moso.processes import process_start, this_machine
from moso.storage.lease_backend import NAME, FileLease, Holder, LeaseBackend, read_lease
from moso.storage.process_lock import exclusive

__all__ = ["EXPIRY_SECONDS", "NAME", "Holder", "held", "read_holder"]

RENEW_SECONDS = 5.0
EXPIRY_SECONDS = 30.0
# Interrupts the main thread like SIGINT, which background processes of a shell script ignore. Windows has only SIGINT.
_STOP = getattr(signal, "SIGUSR1", signal.SIGINT)


def read_holder(path: Path) -> Holder | None:
    """Return the holder of the lease at this path, or None if nobody holds it."""
    return read_lease(FileLease(path))


@contextmanager
def held(at: LeaseBackend | Path, expiry: float = EXPIRY_SECONDS, renew: float = RENEW_SECONDS) -> Iterator[Holder]:
    """Hold the lease at a path or address, and renew it until the block ends.

    Args:
        at: The file of the lease, or another backend.
        expiry: Seconds without renewal after which the lease of another machine has ended.
        renew: Seconds between two renewals.

    Yields:
        This process as the holder.

    Raises:
        MosoError: ``run-locked`` if another process holds the lease, or took it over meanwhile.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / NAME
        >>> with held(path) as holder:
        ...     read_holder(path).owner == holder.owner
        True
        >>> path.exists()
        False
    """
    backend, mine = FileLease(at) if isinstance(at, Path) else at, Holder.myself()
    with exclusive(backend.folder):
        _take(backend, mine, expiry)
    keeping = _Keeping(backend, mine, renew)
    keeping.start()
    try:
        yield mine
    except KeyboardInterrupt:
        if keeping.lost is None:
            raise
    finally:
        keeping.stop()
    if keeping.lost is not None:
        raise errors.RunLocked(
            f"{backend.place} was taken over by a moso on {keeping.lost.host} (process {keeping.lost.process}) while "
            "this process sent no heartbeat; wait until that one ends. Complete pieces are kept"
        )


def _take(backend: LeaseBackend, mine: Holder, expiry: float) -> None:
    while True:
        found = read_lease(backend)
        if found is not None and not _ended(backend, found, expiry):
            raise errors.RunLocked(
                f"another moso is working in {backend.place} (process {found.process} on {found.host}); "
                "wait for it or use another directory (out)"
            )
        if backend.take(mine, found):
            return
        # Another process acquired the lease between our check and our write: read its holder.


def _ended(backend: LeaseBackend, found: Holder, expiry: float) -> bool:
    """Return whether a lease has ended: its holder no longer runs on this machine, or has stopped renewing it."""
    if found.machine == this_machine():
        return process_start(found.process) != found.started
    warnings.warn(
        f"{backend.place} is held by a moso on {found.host}; waiting {expiry:g} s for its next heartbeat",
        stacklevel=2,
    )
    until = time.monotonic() + expiry
    while time.monotonic() < until:
        time.sleep(min(0.5, expiry / 10))
        again = read_lease(backend)
        if again != found:
            return again is None
    return True


def _interrupt_main_thread() -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, _STOP)
    else:
        signal.raise_signal(_STOP)  # Windows: the handler runs in the main thread and wakes it


class _Keeping:
    """Renews a lease in a background thread, and notices if another process has taken it over."""

    def __init__(self, backend: LeaseBackend, mine: Holder, seconds: float) -> None:
        self.backend, self.mine, self.seconds = backend, mine, seconds
        self.lost: Holder | None = None
        self._over = threading.Event()
        self._main = threading.current_thread() is threading.main_thread()
        self._thread = threading.Thread(target=self._renew, daemon=True)

    def start(self) -> None:
        """Start the renewals."""
        if self._main:
            self._before = signal.signal(_STOP, signal.default_int_handler)
        self._thread.start()

    def stop(self) -> None:
        """Stop the renewals and release the lease."""
        self._over.set()
        self._thread.join()
        if self._main:
            signal.signal(_STOP, self._before or signal.SIG_DFL)
        # A lease at an address that does not answer cannot be released, and expires.
        with contextlib.suppress(MosoError):
            found = read_lease(self.backend)
            if found is not None and found.owner == self.mine.owner:
                self.backend.clear()

    def _renew(self) -> None:
        while not self._over.wait(self.seconds):
            # A disk that is full for a moment, or a network failure, must cost one renewal and not the run.
            with contextlib.suppress(OSError, MosoError):
                found = read_lease(self.backend)
                if found is not None and found.owner != self.mine.owner:
                    self.lost = found
                    if self._main:  # end the work: two writers would do the same work twice
                        _interrupt_main_thread()
                    return
                self.mine = replace(self.mine, renewed=time.time(), renewals=self.mine.renewals + 1)
                self.backend.renew(self.mine)
