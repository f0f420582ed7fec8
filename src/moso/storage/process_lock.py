"""A lock between the processes of one machine: one at a time checks and acquires a lease.

Acquiring a lease takes several steps (read the holder, wait for a renewal, write), and each backend is safe without
this lock. The lock spares processes of one machine from waiting for each other's renewals.
"""

import contextlib
import errno
import importlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

# The file to lock on Windows, which cannot open folders.
TURN = ".turn"
_WAIT_SECONDS = 0.05


def _of_the_system(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_fcntl = _of_the_system("fcntl")  # Linux, macOS
_msvcrt = _of_the_system("msvcrt")  # Windows


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder against other processes of this machine; waits until it is free.

    The lock ends with the process that holds it. On a file system without locks this does nothing.

    Example:
        >>> import tempfile
        >>> with exclusive(Path(tempfile.mkdtemp())):
        ...     pass
    """
    if _fcntl is not None:
        with _by_fcntl(_fcntl, folder):
            yield
    elif _msvcrt is not None:
        with _by_msvcrt(_msvcrt, folder / TURN):
            yield
    else:
        yield


@contextmanager
def _by_fcntl(fcntl: ModuleType, folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _by_msvcrt(msvcrt: ModuleType, file: Path) -> Iterator[None]:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT)
    try:
        _lock_first_byte(msvcrt, descriptor)
        yield
    finally:
        os.close(descriptor)  # which unlocks it
        # Windows does not remove a file that another process has open, so the lock of another process stays.
        with contextlib.suppress(OSError):
            file.unlink()


def _lock_first_byte(msvcrt: ModuleType, descriptor: int) -> None:
    while True:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as problem:
            if problem.errno not in (errno.EACCES, errno.EDEADLK):
                return  # the file system has no locks
            time.sleep(_WAIT_SECONDS)
        else:
            return
