"""Where a lease on a run is written down: a file of a directory, or an object at an address.

A file is made by one process alone, because the file system says so. At an address that is not certain: some stores
make an object only where there is none, others let the last one win. So whoever wrote its name there waits a moment
and reads it back.
"""

import contextlib
import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from moso.files import TEMPORARY, write_text
from moso.storage.store import Store

NAME = ".lock"
# How long a lease may stay half written: its file is made and filled in two steps.
_FILLING_SECONDS = 1.0
# How long somebody who writes to a store at the same moment may be on the way.
SETTLING_SECONDS = 1.0


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
        return cls(uuid4().hex, platform.node(), this_machine(), process, begun(process), time.time())

    @property
    def text(self) -> str:
        """A line that says all of it."""
        return json.dumps(asdict(self)) + "\n"


class Slot(Protocol):
    """Where one lease is written down."""

    @property
    def place(self) -> str:
        """What a person calls the run."""

    @property
    def folder(self) -> Path:
        """A folder that all processes of this machine have who want the lease."""

    def text(self) -> str | None:
        """What is written there; None where nothing is."""

    def take(self, mine: Holder, ended: Holder | None) -> bool:
        """Write a name where none is, or where that of `ended` is; False where somebody was quicker."""

    def renew(self, mine: Holder) -> None:
        """Write a holder's next sign of life."""

    def clear(self) -> None:
        """Leave nothing there."""


def read_slot(slot: Slot) -> Holder | None:
    """Who holds a lease; None where nobody does."""
    until = time.monotonic() + _FILLING_SECONDS
    while True:
        late = time.monotonic() > until
        try:
            text = slot.text()
            return None if text is None else Holder(**json.loads(text))
        except (ValueError, TypeError):
            if late:
                return None  # killed before it was filled
        except PermissionError:
            if late:
                raise  # Windows refuses to read a file in the moment of its renewal, and no longer
        time.sleep(0.05)


@dataclass(frozen=True)
class FileSlot:
    """A lease in a file."""

    path: Path

    @property
    def place(self) -> str:
        """The folder it is about."""
        return str(self.path.parent)

    @property
    def folder(self) -> Path:
        """The folder itself."""
        return self.path.parent

    def text(self) -> str | None:
        """What the file holds."""
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def take(self, mine: Holder, ended: Holder | None) -> bool:
        """Make the file, after that of somebody who has ended was put aside."""
        if self.path.exists():
            self._put_aside(ended)
        try:
            with self.path.open("x", encoding="utf-8") as file:
                file.write(mine.text)
        except FileExistsError:
            return False
        return True

    def renew(self, mine: Holder) -> None:
        """Write the file again."""
        write_text(self.path, mine.text)

    def clear(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)

    def _put_aside(self, ended: Holder | None) -> None:
        """Take a lease away that has ended; of several who try, one succeeds."""
        aside = FileSlot(self.path.with_name(f"{self.path.name}.{uuid4().hex}{TEMPORARY}"))
        try:
            self.path.rename(aside.path)
        except FileNotFoundError:
            return
        found = read_slot(aside)
        if found is not None and (ended is None or found.owner != ended.owner):
            # Somebody took it between our look and our hand: theirs again, unless a third has it by now.
            with contextlib.suppress(FileExistsError):
                os.link(aside.path, self.path)
        aside.clear()


@dataclass(frozen=True)
class StoreSlot:
    """A lease at an address; `folder` is the working copy."""

    store: Store
    folder: Path

    @property
    def place(self) -> str:
        """The address."""
        return self.store.address

    def text(self) -> str | None:
        """What the object holds."""
        return self.store.read(NAME)

    def take(self, mine: Holder, ended: Holder | None) -> bool:
        """Make the object, or write over that of somebody who has ended; and see a moment later whose name is there."""
        found = read_slot(self)
        if found is not None and found != ended:
            return False
        if found is not None or (not self.store.create(NAME, mine.text) and read_slot(self) is None):
            self.store.write(NAME, mine.text)
        time.sleep(SETTLING_SECONDS)
        settled = read_slot(self)
        return settled is not None and settled.owner == mine.owner

    def renew(self, mine: Holder) -> None:
        """Write the object again."""
        self.store.write(NAME, mine.text)

    def clear(self) -> None:
        """Remove the object."""
        self.store.remove([NAME])


def this_machine() -> str:
    """What is the same for two processes that can see each other's numbers, and for no others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return f"{platform.node()} {os.getpid()}"  # elsewhere nobody is recognised, and leases expire


def begun(process: int) -> str:
    """When a process began, by the machine's own count; empty where it is gone."""
    try:
        line = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    fields = line.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]
