"""Backends of a lease on a run: a file of a directory, or an object at an address.

A file system guarantees that one process alone creates a file. Stores do not always: some create an object only if none
exists, in others the last writer wins. Therefore a process that wrote its lease to a store waits for
`SETTLING_SECONDS` and reads it back.
"""

import contextlib
import json
import os
import platform
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from moso.files import TEMPORARY, write_text
from moso.processes import process_start, this_machine
from moso.storage.store import Store

NAME = ".lock"
# How long a lease may stay incomplete: its file is created and filled in two steps.
_FILLING_SECONDS = 1.0
# How long a concurrent write to a store may take to arrive.
SETTLING_SECONDS = 1.0


@dataclass(frozen=True)
class Holder:
    """The holder of a lease.

    Attributes:
        owner: Random id of this hold.
        host: Name of the machine, for people.
        machine: Identifies the PID namespace, within which `process` is unique.
        process: PID.
        started: Start time of the process, which tells it from a later process with the same PID.
        renewed: Unix time of the last renewal, in seconds.
        renewals: Number of renewals.
    """

    owner: str
    host: str
    machine: str
    process: int
    started: str
    renewed: float
    renewals: int = 0

    @classmethod
    def myself(cls) -> "Holder":
        """Return this process as the holder of a new lease."""
        process = os.getpid()
        return cls(uuid4().hex, platform.node(), this_machine(), process, process_start(process), time.time())

    @classmethod
    def read(cls, text: str) -> "Holder":
        """Return the holder of a line of JSON.

        Raises:
            ValueError: The line is incomplete or damaged.

        Example:
            >>> Holder.read(Holder("o", "h", "m", 7, "s", 1.5).text).process
            7
        """
        found = json.loads(text)
        if not isinstance(found, dict) or not all(
            isinstance(found.get(one.name), float if one.name == "renewed" else type(getattr(_LIKE, one.name)))
            for one in fields(cls)
        ):
            raise ValueError(f"{text!r} names no holder")
        return cls(**found)

    @property
    def text(self) -> str:
        """The holder as one line of JSON."""
        return json.dumps(asdict(self)) + "\n"


_LIKE = Holder("", "", "", 0, "", 0.0)


class LeaseBackend(Protocol):
    """The place of one lease."""

    @property
    def place(self) -> str:
        """The run's path or address, for messages."""

    @property
    def folder(self) -> Path:
        """A folder that is the same for all processes of this machine that compete for the lease."""

    def text(self) -> str | None:
        """Return the text of the lease, or None if there is none."""

    def take(self, mine: Holder, ended: Holder | None) -> bool:
        """Acquire the lease if it is free or held by `ended`; return False if another process acquired it first."""

    def renew(self, mine: Holder) -> None:
        """Write the renewed lease."""

    def clear(self) -> None:
        """Remove the lease."""


def read_lease(backend: LeaseBackend) -> Holder | None:
    """Return the holder of a lease, or None if nobody holds it."""
    until = time.monotonic() + _FILLING_SECONDS
    while True:
        late = time.monotonic() > until
        try:
            text = backend.text()
            return None if text is None else Holder.read(text)
        except (ValueError, TypeError):
            if late:
                return None  # its writer was killed before filling it
        except PermissionError:
            if late:
                raise  # Windows refuses to read a file only while it is being replaced
        time.sleep(0.05)


@dataclass(frozen=True)
class FileLease:
    """A lease in a file."""

    path: Path

    @property
    def place(self) -> str:
        """The folder that the lease protects."""
        return str(self.path.parent)

    @property
    def folder(self) -> Path:
        """The folder that the lease protects."""
        return self.path.parent

    def text(self) -> str | None:
        """Return the text of the file, or None if there is none."""
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def take(self, mine: Holder, ended: Holder | None) -> bool:
        """Create the file, after moving an ended lease aside."""
        if self.path.exists():
            self._put_aside(ended)
        try:
            with self.path.open("x", encoding="utf-8") as file:
                file.write(mine.text)
        except FileExistsError:
            return False
        return True

    def renew(self, mine: Holder) -> None:
        """Replace the file."""
        write_text(self.path, mine.text)

    def clear(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)

    def _put_aside(self, ended: Holder | None) -> None:
        """Remove a lease that has ended; of several processes that try, one succeeds."""
        aside = FileLease(self.path.with_name(f"{self.path.name}.{uuid4().hex}{TEMPORARY}"))
        try:
            self.path.rename(aside.path)
        except FileNotFoundError:
            return
        found = read_lease(aside)
        if found is not None and (ended is None or found.owner != ended.owner):
            # Another process acquired the lease between our check and our rename: restore its file, unless a third
            # process has created one by now.
            with contextlib.suppress(FileExistsError):
                os.link(aside.path, self.path)
        aside.clear()


@dataclass(frozen=True)
class StoreLease:
    """A lease in an object at an address; `folder` is the working copy."""

    store: Store
    folder: Path

    @property
    def place(self) -> str:
        """The address of the run."""
        return self.store.address

    def text(self) -> str | None:
        """Return the text of the object, or None if there is none."""
        return self.store.read(NAME)

    def take(self, mine: Holder, ended: Holder | None) -> bool:
        """Create the object or overwrite an ended lease, wait, and return whether the lease is still ours."""
        found = read_lease(self)
        if found is not None and found != ended:
            return False
        if found is not None or (not self.store.create(NAME, mine.text) and read_lease(self) is None):
            self.store.write(NAME, mine.text)
        time.sleep(SETTLING_SECONDS)
        settled = read_lease(self)
        return settled is not None and settled.owner == mine.owner

    def renew(self, mine: Holder) -> None:
        """Overwrite the object."""
        self.store.write(NAME, mine.text)

    def clear(self) -> None:
        """Remove the object."""
        self.store.remove([NAME])
