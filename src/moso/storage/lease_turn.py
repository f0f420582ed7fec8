"""Taking turns: of the processes of one machine, one at a time looks at a lease and takes it.

A lease is taken in several steps (see who holds it, wait for a sign of life, write), and each of its slots is safe
without this. Turns spare the processes of one machine from waiting for each other's signs of life.
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

# The file that Windows locks: it opens no folders.
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
def alone(folder: Path) -> Iterator[None]:
    """Enter one at a time of the processes of this machine that ask for this folder; a file system may not offer it.

    The turn ends with the process that has it.

    Example:
        >>> import tempfile
        >>> with alone(Path(tempfile.mkdtemp())):
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
        # Windows removes no file that another process has open, so nobody's turn is taken away.
        with contextlib.suppress(OSError):
            file.unlink()


def _lock_first_byte(msvcrt: ModuleType, descriptor: int) -> None:
    while True:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as problem:
            if problem.errno not in (errno.EACCES, errno.EDEADLK):
                return  # the file system does not offer it
            time.sleep(_WAIT_SECONDS)
        else:
            return
