"""The working copy of a run at an address: a folder of this machine in which the work is done, kept in step with it.

Arrays are mapped from local files and written in place, so work needs a disk; the store needs whole files. `pull`
brings what changed at the address, `push` sends what changed here. What was last the same on both sides is on record,
so that a file which is on one side alone is either new there or was taken away on the other. A push sends in an order
in which the store is whole at every moment: notes (`.json`) say that something is complete, so they are looked for
first and sent after everything else. Processes of this machine share the copy, and go one at a time.

Hand-made, though fsspec has `rsync`: that knows neither what one side has removed nor an order of sending.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from moso import errors
from moso.columns import cache_folder
from moso.files import TEMPORARY, write_json, write_text
from moso.randomness import key
from moso.storage.lease_backend import NAME as LEASE
from moso.storage.process_lock import exclusive
from moso.storage.store import Store

Result = TypeVar("Result")
Wanted = Callable[[str], bool]
# What only says where a piece of work goes on, and is of use where it was written: see `docs/cluster.md`.
_STAYS = frozenset({"position.safetensors", "adjoint.safetensors", "purpose.json", "previous.npy"})
# What is taken away when it has served; nothing else is ever removed from a store.
_PASSING = frozenset({"shards", "replay"})
_CONFIGURATION, _MANIFEST = "run.toml", "manifest.json"
_AT_ONCE = 8

# On record: the file here, and the object there, when they were last the same.
Record = dict[str, tuple[str, str]]


def is_small_file(name: str) -> bool:
    """Whether a file is wanted wherever the run is: all but what only pieces of one partition look at.

    >>> is_small_file("scores.parquet"), is_small_file("trajectory/part-000/step-00000001.safetensors")
    (True, False)
    """
    return not {"trajectory", "shards"} & set(name.split("/"))


def is_status_file(name: str) -> bool:
    """Whether a file says how the run stands.

    >>> is_status_file("events/node-7.jsonl"), is_status_file("scores.parquet")
    (True, False)
    """
    return name in (_CONFIGURATION, _MANIFEST, "events.jsonl") or name.startswith("events/")


@dataclass(frozen=True)
class WorkingCopy:
    """The folder `root` that follows the run at a store; what belongs to it lies beside it."""

    store: Store
    scratch: Path

    @classmethod
    def of(cls, store: Store, scratch: Path | None = None) -> "WorkingCopy":
        """The copy that all processes of this machine share, in the cache folder, or one in a folder of its own."""
        name = f"{PurePosixPath(store.address).name}-{key(store.address):016x}"
        return cls(store, scratch or cache_folder() / "runs" / name)

    @property
    def root(self) -> Path:
        """The run directory on this machine."""
        return self.scratch / "run"

    def check(self) -> None:
        """Refuse an address where something else is than a run."""
        if self.store.read(_CONFIGURATION) is None:
            foreign = [name for name in self.store.top() if name != LEASE and TEMPORARY not in name]
            if foreign:
                raise errors.NotARun(
                    f"{self.store.address} is not empty and not a run directory (it holds {foreign[0]}); "
                    "use another --out"
                )

    def pull(self, wanted: Wanted = is_small_file, leading: bool = False) -> None:
        """Bring what changed at the address, of what is wanted; `leading` is who holds the lease."""
        with self._recorded() as record:
            if _CONFIGURATION not in record:
                self.check()
            everything = self.store.versions()
            there = {name: version for name, version in everything.items() if _travels(name)}
            if _CONFIGURATION not in there:
                self.check()
                there = {}
            if self._is_another(record, there, leading):
                shutil.rmtree(self.root)
                self.root.mkdir(parents=True)
                record.clear()
            gone = [name for name in record if name not in there]
            for name in gone:
                if self._version(name) == record.pop(name)[0]:
                    self._take_away(name)
            changed = [name for name, version in there.items() if wanted(name) and self._is_news(record, name, version)]
            for group in _in_order(changed):
                for name, came in zip(group, _side_by_side(self._fetch, group), strict=True):
                    if came:
                        record[name] = self._version(name), there[name]
            if leading:
                self.store.remove(name for name in everything if TEMPORARY in name)

    def push(self, wanted: Wanted = lambda name: True) -> None:
        """Send what changed here; what was taken away here goes there, too, where it was meant for a while only."""
        with self._recorded() as record:
            here = {name: version for name, version in self._all_here().items() if wanted(name)}
            changed = [name for name, version in here.items() if record.get(name, ("",))[0] != version]
            for group in _in_order(changed):
                _side_by_side(lambda name: self.store.send(self.root / name, name), group)
            served = [name for name in record if _is_passing(name) and wanted(name) and not self._version(name)]
            self.store.remove(served)
            for name in served:
                del record[name]
            if changed:
                there = self.store.versions()
                record.update({name: (here[name], there[name]) for name in changed if name in there})

    def _is_another(self, record: Record, there: dict[str, str], leading: bool) -> bool:
        """Whether what is here belongs to a run that is no more: the one at the address was begun at another time."""
        if _CONFIGURATION not in there:
            return leading or _CONFIGURATION in record
        return record.get(_CONFIGURATION, ("", ""))[1] != there[_CONFIGURATION]

    def _is_news(self, record: Record, name: str, version: str) -> bool:
        """Whether an object is to be brought; where both sides changed, the address is right."""
        if name in record:
            missing = not self._version(name)
            return record[name][1] != version or (missing and not _is_passing(name))
        return True

    def _fetch(self, name: str) -> bool:
        return self.store.fetch(name, self.root / name)

    def _take_away(self, name: str) -> None:
        path = self.root / name
        path.unlink(missing_ok=True)
        # A folder means something to those who look for it.
        while (path := path.parent) != self.root and path.exists() and not any(path.iterdir()):
            path.rmdir()

    def _version(self, name: str) -> str:
        try:
            state = (self.root / name).stat()
        except FileNotFoundError:
            return ""
        return f"{state.st_size} {state.st_mtime_ns} {state.st_ino}"

    def _all_here(self) -> dict[str, str]:
        """The files that are complete here, each with its version.

        Others may be at work: notes are looked for first, so what they are about is there when it is looked for.
        """
        notes = [name for name in self._names() if name.endswith(".json")]
        columns = {str(PurePosixPath(name).parent): self._columns(name) for name in notes if _is_of_dynamics(name)}
        found = {}
        for name in [*notes, *(name for name in self._names() if not name.endswith(".json"))]:
            if _is_of_dynamics(name) and name.endswith(".npy"):
                # Written in place, epoch by epoch, until the note beside it names it.
                folder, column = str(PurePosixPath(name).parent), PurePosixPath(name).stem
                if column not in columns.get(folder, ()):
                    continue
            version = self._version(name)
            if version:
                found[name] = version
        return found

    def _columns(self, name: str) -> list[str]:
        found: list[str] = json.loads((self.root / name).read_text(encoding="utf-8")).get("columns", [])
        return found

    def _names(self) -> list[str]:
        paths = (path for path in self.root.rglob("*") if path.is_file())
        return [name for name in (path.relative_to(self.root).as_posix() for path in paths) if _travels(name)]

    @contextmanager
    def _recorded(self) -> Iterator[Record]:
        """The record, for one process at a time, written down afterwards also where something went wrong."""
        self.root.mkdir(parents=True, exist_ok=True)
        path = self.scratch / "record.json"
        with exclusive(self.scratch):
            if not (self.scratch / "address.txt").exists():
                write_text(self.scratch / "address.txt", self.store.address + "\n")
            before = path.read_text(encoding="utf-8") if path.exists() else "{}"
            record: Record = {name: (own, other) for name, (own, other) in json.loads(before).items()}
            known = dict(record)
            try:
                yield record
            finally:
                if record != known:
                    write_json(path, record)


def _travels(name: str) -> bool:
    """Whether a file of a run is meant for other machines at all."""
    folders, _, last = name.rpartition("/")
    stays = last in _STAYS or last == LEASE or TEMPORARY in last
    return not stays and folders != "state/running" and "scratch" not in folders.split("/")


def _is_passing(name: str) -> bool:
    return bool(_PASSING & set(name.split("/")))


def _is_of_dynamics(name: str) -> bool:
    return "dynamics" in name.split("/")


def _in_order(names: Iterable[str]) -> list[list[str]]:
    """Names in groups, each to be complete before the next: what a run is, what it has, what that means.

    Of the checkpoints for a replay the last one means that all are there.

    >>> _in_order(["manifest.json", "state/part-000/history.json", "run.toml", "a.npz", "b.npz"])
    [['run.toml'], ['a.npz', 'b.npz'], ['state/part-000/history.json'], ['manifest.json']]
    >>> _in_order(["x/replay/step-00000004.safetensors", "x/replay/step-00000002.safetensors"])
    [['x/replay/step-00000002.safetensors'], ['x/replay/step-00000004.safetensors']]
    """
    groups: dict[tuple[int, str], list[str]] = {}
    for name in sorted(names):
        rank = {_CONFIGURATION: 0, _MANIFEST: 3}.get(name, 2 if name.endswith(".json") else 1)
        groups.setdefault((rank, name if "replay" in name.split("/") else ""), []).append(name)
    return [groups[rank] for rank in sorted(groups)]


def _side_by_side(action: Callable[[str], Result], names: list[str]) -> list[Result]:
    """What an action gives for each name, several at a time; the first error is raised when those at work are done."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(action, names))
