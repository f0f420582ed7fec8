"""The working copy of a run at an address: a local folder in which the work is done, synchronised with the store.

Work needs a local disk, because arrays are memory-mapped and written in place; the store needs complete files. `pull`
downloads what changed at the address, `push` uploads what changed locally. A record holds the versions that were last
equal on both sides; it tells whether a file that exists on one side only is new there or was removed on the other. A
push keeps the store consistent at every moment: a JSON file declares that other files are complete, so JSON files are
listed first and uploaded last. Processes of this machine share the copy; a lock lets in one at a time.

Hand-made although fsspec offers `rsync`, which detects no removals and has no order of uploads.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from moso import errors
from moso.columns import cache_folder
from moso.files import TEMPORARY, read_record, write_record, write_text
from moso.randomness import key
from moso.storage.lease_backend import NAME as LEASE
from moso.storage.process_lock import exclusive
from moso.storage.store import Store

Result = TypeVar("Result")
Wanted = Callable[[str], bool]
# Files from which an interrupted piece resumes; useful only on the machine that wrote them (`docs/cluster.md`).
_STAYS = frozenset({"position.safetensors", "adjoint.safetensors", "purpose.json", "previous.npy"})
# Folders of temporary files, which are removed after use; nothing else is ever removed from a store.
_ASIDE = "damaged"
_PASSING = frozenset({"shards", "replay"})
_CONFIGURATION, _MANIFEST = "run.toml", "manifest.json"
_AT_ONCE = 8

# By name: the version of the local file and of the object when they were last equal.
Record = dict[str, tuple[str, str]]


def is_small_file(name: str) -> bool:
    """Return whether a file is wanted on every machine: all except files that only one partition needs.

    Example:
        >>> is_small_file("scores.parquet"), is_small_file("trajectory/part-000/step-00000001.safetensors")
        (True, False)
    """
    return not {"trajectory", "shards"} & set(name.split("/"))


def is_status_file(name: str) -> bool:
    """Return whether a file describes the status of the run.

    Example:
        >>> is_status_file("events/node-7.jsonl"), is_status_file("scores.parquet")
        (True, False)
    """
    return name in (_CONFIGURATION, _MANIFEST, "events.jsonl") or name.startswith("events/")


@dataclass(frozen=True)
class WorkingCopy:
    """The local folder `root`, synchronised with the run at a store; `scratch` also holds the record."""

    store: Store
    scratch: Path

    @classmethod
    def of(cls, store: Store, scratch: Path | None = None) -> "WorkingCopy":
        """Return the copy in the cache folder, which all processes of this machine share, or one in `scratch`."""
        name = f"{PurePosixPath(store.address).name}-{key(store.address):016x}"
        return cls(store, scratch or cache_folder() / "runs" / name)

    @property
    def root(self) -> Path:
        """The run directory on this machine."""
        return self.scratch / "run"

    def check(self) -> None:
        """Refuse an address that holds something other than a run.

        Raises:
            MosoError: ``not-a-run``, ``storage-failed``.
        """
        if self.store.read(_CONFIGURATION) is None:
            foreign = [name for name in self.store.top() if name != LEASE and TEMPORARY not in name]
            if foreign:
                raise errors.NotARun(
                    f"{self.store.address} is not empty and not a run directory (it holds {foreign[0]}); "
                    "use another address (out)"
                )

    def pull(self, wanted: Wanted = is_small_file, leading: bool = False) -> None:
        """Download files that changed at the address.

        Args:
            wanted: Whether to download the file of a name.
            leading: Whether this process holds the lease of the run.

        Raises:
            MosoError: ``not-a-run``, ``storage-failed``.
        """
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
        """Upload files that changed locally, and remove temporary files from the store that were removed locally.

        Args:
            wanted: Whether to synchronise the file of a name.

        Raises:
            MosoError: ``storage-failed``.
        """
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

    def forget(self, names: Iterable[str]) -> None:
        """Remove files from the store that were set aside locally, because they are damaged there, too."""
        with self._recorded() as record:
            gone = [name for name in names if record.pop(name, None) is not None]
            self.store.remove(gone)

    def _is_another(self, record: Record, there: dict[str, str], leading: bool) -> bool:
        """Return whether the local files belong to another run than the one at the address, or to one removed there."""
        if _CONFIGURATION not in there:
            return leading or _CONFIGURATION in record
        return record.get(_CONFIGURATION, ("", ""))[1] != there[_CONFIGURATION]

    def _is_news(self, record: Record, name: str, version: str) -> bool:
        """Return whether to download an object; if both sides changed, the address wins."""
        if name in record:
            missing = not self._version(name)
            return record[name][1] != version or (missing and not _is_passing(name))
        return True

    def _fetch(self, name: str) -> bool:
        return self.store.fetch(name, self.root / name)

    def _take_away(self, name: str) -> None:
        path = self.root / name
        path.unlink(missing_ok=True)
        # Remove empty folders as well, because code tests for the existence of folders.
        while (path := path.parent) != self.root and path.exists() and not any(path.iterdir()):
            path.rmdir()

    def _version(self, name: str) -> str:
        try:
            state = (self.root / name).stat()
        except FileNotFoundError:
            return ""
        return f"{state.st_size} {state.st_mtime_ns} {state.st_ino}"

    def _all_here(self) -> dict[str, str]:
        """Return the version of every complete local file by name.

        Other processes may be writing: JSON files are listed first, so the files that they declare complete exist when
        those are listed.
        """
        notes = [name for name in self._names() if name.endswith(".json")]
        columns = {str(PurePosixPath(name).parent): self._columns(name) for name in notes if _is_of_dynamics(name)}
        found = {}
        for name in [*notes, *(name for name in self._names() if not name.endswith(".json"))]:
            if _is_of_dynamics(name) and name.endswith(".npy"):
                # Written in place, epoch by epoch, and complete once the JSON file in its folder names it.
                folder, column = str(PurePosixPath(name).parent), PurePosixPath(name).stem
                if column not in columns.get(folder, ()):
                    continue
            version = self._version(name)
            if version:
                found[name] = version
        return found

    def _columns(self, name: str) -> list[str]:
        columns: list[str] = read_record(self.root / name).get("columns", [])
        return columns

    def _names(self) -> list[str]:
        paths = (path for path in self.root.rglob("*") if path.is_file())
        return [name for name in (path.relative_to(self.root).as_posix() for path in paths) if _travels(name)]

    @contextmanager
    def _recorded(self) -> Iterator[Record]:
        """Yield the record to one process at a time, and write it afterwards, also after an error."""
        self.root.mkdir(parents=True, exist_ok=True)
        path = self.scratch / "record.json"
        with exclusive(self.scratch):
            if not (self.scratch / "address.txt").exists():
                write_text(self.scratch / "address.txt", self.store.address + "\n")
            before = read_record(path) if path.exists() else {}
            record: Record = {name: (own, other) for name, (own, other) in before.items()}
            known = dict(record)
            try:
                yield record
            finally:
                if record != known:
                    write_record(path, record)


def _travels(name: str) -> bool:
    """Return whether a file is synchronised at all."""
    folders, _, last = name.rpartition("/")
    stays = last in _STAYS or last == LEASE or TEMPORARY in last
    return not stays and folders != "state/running" and not {"scratch", _ASIDE} & set(folders.split("/"))


def _is_passing(name: str) -> bool:
    return bool(_PASSING & set(name.split("/")))


def _is_of_dynamics(name: str) -> bool:
    return "dynamics" in name.split("/")


def _in_order(names: Iterable[str]) -> list[list[str]]:
    """Group names so that each group is transferred before the next: configuration, data, JSON files, manifest.

    Checkpoints for a replay are transferred one by one, because the last one implies that all are there.

    Example:
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
    """Apply an action to each name in a thread pool; raise the first error after the running actions are done."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(action, names))
