"""A lease on a run directory: who works there, and a sign of life every few seconds.

It ends with its holder: at once where the holder ran on this machine and is gone, otherwise when it has not been
renewed for `EXPIRY_SECONDS`. Clocks of two machines need not agree: a lease is watched by the watcher's own clock for a
change, and only one that is minutes old is believed to be over without watching.
"""

import contextlib
import fcntl
import json
import os
import platform
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from uuid import uuid4

from moso.errors import MosoError
from moso.files import TEMPORARY, write_text

NAME = ".lock"
RENEW_SECONDS = 5.0
EXPIRY_SECONDS = 30.0
# How far the clocks of two machines may be apart.
SKEW_SECONDS = 300.0
# How long a lease may stay half written: its file is made and filled in two steps.
_FILLING_SECONDS = 1.0
# Interrupts like SIGINT, which a process in the background of a script ignores.
_STOP = signal.SIGUSR1


@dataclass(frozen=True)
class Holder:
    """Who holds a lease: a process, and `machine`, within which process numbers mean something."""

    owner: str
    host: str
    machine: str
    process: int
    started: str
    renewed: float
    renewals: int = 0

    @classmethod
    def myself(cls) -> "Holder":
        """This process, as the holder of a new lease."""
        process = os.getpid()
        return cls(uuid4().hex, platform.node(), _machine(), process, _started(process), time.time())


def read_holder(path: Path) -> Holder | None:
    """Who holds the lease at this path; None where nobody does."""
    until = time.monotonic() + _FILLING_SECONDS
    while True:
        try:
            return Holder(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            if time.monotonic() > until:
                return None  # killed before it was filled
            time.sleep(0.05)


@contextmanager
def held(path: Path, expiry: float = EXPIRY_SECONDS, renew: float = RENEW_SECONDS) -> Iterator[Holder]:
    """Hold the lease at this path, renewed while the work goes on; refused where somebody else holds it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / NAME
    >>> with held(path) as holder:
    ...     read_holder(path).owner == holder.owner
    True
    >>> path.exists()
    False
    """
    mine = Holder.myself()
    with _alone(path.parent):
        _take(path, mine, expiry)
    keeping = _Keeping(path, mine, renew)
    keeping.start()
    try:
        yield mine
    except KeyboardInterrupt:
        if keeping.lost is None:
            raise
    finally:
        keeping.stop()
    if keeping.lost is not None:
        raise MosoError(
            f"{path.parent} was taken over by a moso on {keeping.lost.host} (process {keeping.lost.process}) while "
            "this one showed no sign of life; let that one finish. What was complete is kept"
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One at a time of those on this machine who try to take a lease; a file system may not offer it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _take(path: Path, mine: Holder, expiry: float) -> None:
    while True:
        found = read_holder(path)
        if found is not None and not _ended(path, found, expiry):
            raise MosoError(
                f"another moso is working in {path.parent} (process {found.process} on {found.host}); "
                "wait for it or use another --out"
            )
        if path.exists():
            _remove(path, found)
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(_text(mine))
            return
        except FileExistsError:
            continue  # somebody was quicker; see who


def _remove(path: Path, ended: Holder | None) -> None:
    """Take a lease away that has ended; of several who try, one succeeds."""
    aside = path.with_name(f"{path.name}.{uuid4().hex}{TEMPORARY}")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return
    found = read_holder(aside)
    if found is not None and (ended is None or found.owner != ended.owner):
        # Somebody took it between our look and our hand: theirs again, unless a third has it by now.
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
    aside.unlink()


def _ended(path: Path, found: Holder, expiry: float) -> bool:
    """Whether a lease is over: its holder is gone from this machine, or gives no sign of life."""
    if found.machine == _machine():
        return _started(found.process) != found.started
    if time.time() - found.renewed > expiry + SKEW_SECONDS:
        return True
    warnings.warn(
        f"{path.parent} is held by a moso on {found.host}; waiting {expiry:g} s for its next sign of life", stacklevel=2
    )
    until = time.monotonic() + expiry
    while time.monotonic() < until:
        time.sleep(min(0.5, expiry / 10))
        again = read_holder(path)
        if again != found:
            return again is None
    return True


class _Keeping:
    """Renews a lease from a thread of its own, and notices when somebody else has it."""

    def __init__(self, path: Path, mine: Holder, seconds: float) -> None:
        self.path, self.mine, self.seconds = path, mine, seconds
        self.lost: Holder | None = None
        self._over = threading.Event()
        self._main = threading.current_thread() is threading.main_thread()
        self._thread = threading.Thread(target=self._renew, daemon=True)

    def start(self) -> None:
        """Renew from now on."""
        if self._main:
            self._before = signal.signal(_STOP, signal.default_int_handler)
        self._thread.start()

    def stop(self) -> None:
        """Give the lease back."""
        self._over.set()
        self._thread.join()
        if self._main:
            signal.signal(_STOP, self._before or signal.SIG_DFL)
        found = read_holder(self.path)
        if found is not None and found.owner == self.mine.owner:
            self.path.unlink(missing_ok=True)

    def _renew(self) -> None:
        while not self._over.wait(self.seconds):
            found = read_holder(self.path)
            if found is not None and found.owner != self.mine.owner:
                self.lost = found
                if self._main:  # end the work: two writers would do everything twice
                    signal.pthread_kill(threading.main_thread().ident or 0, _STOP)
                return
            self.mine = replace(self.mine, renewed=time.time(), renewals=self.mine.renewals + 1)
            # A disk that is full for a moment costs a sign of life, not the run.
            with contextlib.suppress(OSError):
                write_text(self.path, _text(self.mine))


def _text(holder: Holder) -> str:
    return json.dumps(asdict(holder)) + "\n"


def _machine() -> str:
    """What is the same for two processes that can see each other's numbers, and for no others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return f"{platform.node()} {os.getpid()}"  # elsewhere nobody is recognised, and leases expire


def _started(process: int) -> str:
    """When a process began, by the machine's own count; empty where it is gone."""
    try:
        line = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    fields = line.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]
