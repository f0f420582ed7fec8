"""The run directory: the paths of all files of a run, its manifest, its events, and the lock for writers."""

import contextlib
import json
import os
import platform
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import cast

from moso import errors
from moso.checksums import FIELD, state
from moso.code_trust import note_names
from moso.configuration import Configuration
from moso.configuration.configuration import read_toml
from moso.configuration.fields import FORMAT
from moso.configuration.network_settings import network_names
from moso.errors import MosoError
from moso.files import TEMPORARY, append, not_made_again, read_record, replacing, sweep, write_record, write_text
from moso.results.manifest import EVENT_ENTRIES, Event, Manifest, Surroundings
from moso.results.working_copy import Wanted, WorkingCopy, is_small_file
from moso.storage.lease import NAME, Holder, held
from moso.storage.lease_backend import FileLease, LeaseBackend, StoreLease, read_lease
from moso.storage.store import Store
from moso.version import __version__

WATCH_SECONDS = 2.0
FAR_WATCH_SECONDS = 10.0
_SIGNS = "state/running"
# Folders of features, which are computed before a run begins.
PREPARED = ("embedding", "trunk")


@dataclass(frozen=True)
class RunDirectory:
    """The paths of a run, its manifest, its events and its lock.

    Attributes:
        root: Folder of the run on this machine.
        writer: Name of a process that writes events concurrently with other machines, and so into its own file.
        copy: Working copy of a run at an address, which contains `root`; None for a run at a path.

    Example:
        >>> str(RunDirectory.at("runs/demo")), str(RunDirectory.at("memory://demo/"))
        ('runs/demo', 'memory://demo')
    """

    root: Path
    writer: str = ""
    copy: WorkingCopy | None = None

    @classmethod
    def at(cls, place: Path | str, writer: str = "", scratch: Path | None = None) -> "RunDirectory":
        """Return the run at a path or an address.

        Args:
            place: Path or address.
            writer: Name of this process, if it writes events concurrently with other machines.
            scratch: Folder for the working copy of a run at an address; None uses the cache folder.

        Raises:
            MosoError: ``address-invalid``, ``package-missing``.
        """
        store = Store.of(place)
        if store is None:
            return cls(Path(place), writer)
        copy = WorkingCopy.of(store, scratch)
        return cls(copy.root, writer, copy)

    def __str__(self) -> str:
        return str(self.root) if self.copy is None else self.copy.store.address

    def named(self, path: Path) -> str:
        """Return the name of a file for messages: below the address if the run has one, otherwise its path."""
        if self.copy is None or not path.is_relative_to(self.root):
            return str(path)
        return f"{self}/{path.relative_to(self.root).as_posix()}"

    @property
    def configuration_path(self) -> Path:
        """The path of `run.toml`."""
        return self.root / "run.toml"

    def of_seed(self, configuration: Configuration, seed: int) -> Path:
        """Return the folder of the surrogates and scores of a seed: the root for the first, a subfolder for others."""
        return self.root if seed == configuration.seed else self.root / "seeds" / f"seed-{seed:05d}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the directory, which ends with the process that holds it.

        A run at an address is pulled first, and pushed at the end.

        Raises:
            MosoError: ``run-locked``, ``not-writable``, ``not-a-run``, ``storage-failed``.
        """
        with ExitStack() as holding:
            try:
                self.root.mkdir(parents=True, exist_ok=True)
                if self.copy is not None:
                    self.copy.check()
                holding.enter_context(held(self._lease))
            except OSError as problem:
                raise errors.NotWritable(f"cannot write to {self.root}: {problem.strerror}") from problem
            holding.enter_context(not_made_again(self.root))
            sweep(self.root)
            if self.copy is not None:
                self.copy.pull(lambda name: is_small_file(name) or "shards" in name, leading=True)
                self.copy.push()  # files that an earlier process on this machine could not send
            holding.enter_context(self._told())
            yield

    @property
    def _lease(self) -> LeaseBackend:
        return FileLease(self.root / NAME) if self.copy is None else StoreLease(self.copy.store, self.root)

    def holder(self) -> Holder | None:
        """Return the holder of the lock, or None."""
        return read_lease(self._lease)

    def check_seen_by_others(self) -> None:
        """Refuse an address that only this process sees, because other processes are to work on the run.

        Raises:
            MosoError: ``executor-unsuitable``.
        """
        if self.copy is not None and self.copy.store.is_of_one_process:
            raise errors.ExecutorUnsuitable(
                f"{self} is seen by this process alone; use another address, or one worker (workers)"
            )

    def pull(self, wanted: Wanted = is_small_file) -> None:
        """Download changed files from the run's address, if it has one.

        Args:
            wanted: Whether to download the file of a name.
        """
        if self.copy is not None:
            self.copy.pull(wanted)

    def push(self, *written: Path) -> None:
        """Upload changed files to the run's address, if it has one.

        Args:
            written: Files or folders to which the upload is restricted. A process without the lock must name what it
                wrote; none uploads everything.
        """
        if self.copy is not None:
            own = [path for path in written if path.is_relative_to(self.root)]
            self.copy.push(lambda name: not written or any((self.root / name).is_relative_to(path) for path in own))

    @contextmanager
    def shared(self, wanted: Wanted) -> Iterator[None]:
        """Work on a run that other processes share: pull the wanted files first, and push at the end."""
        self.pull(wanted)
        with not_made_again(self.root), self._told():
            yield

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Push after the block succeeds; if it fails with a `MosoError`, push the events only."""
        try:
            yield
        except MosoError:
            if self.copy is not None:
                hasty = replace(self.copy, store=replace(self.copy.store, tries=1))
                # The first error is the one to report, and all files are still in the working copy.
                with contextlib.suppress(MosoError):
                    hasty.push(lambda name: name.startswith("events"))
            raise
        self.push()

    def settle(self, configuration: Configuration) -> None:
        """Write the configuration of a new run, or check that an existing run has the same one.

        Raises:
            MosoError: ``not-a-run`` if the folder holds other files; ``run-differs``.
        """
        self.check(configuration)
        if not self.configuration_path.exists() or self.configuration().difference(configuration):
            write_text(self.configuration_path, f"# {FIELD}\n{configuration.to_toml()}")

    def check(self, configuration: Configuration) -> None:
        """Refuse a folder that holds other files, or a run of another configuration.

        Raises:
            MosoError: ``not-a-run``, ``run-differs``.
        """
        if not self.configuration_path.exists():
            foreign = [
                path.name
                for path in self.root.iterdir()
                if path.name not in (NAME, *PREPARED) and TEMPORARY not in path.name
            ]
            if foreign:
                raise errors.NotARun(
                    f"{self} is not empty and not a run directory (it holds {foreign[0]}); use another directory (out)"
                )
            return
        different = self.configuration().difference(configuration)
        if different and different != ["tolerance"]:  # decides no file of the run, only what is said of them
            raise errors.RunDiffers(
                f"{self} holds a run of another configuration ({', '.join(different)} differ); "
                "use another directory (out), or delete it"
            )

    def configuration(self) -> Configuration:
        """Read the configuration of the run.

        Raises:
            MosoError: ``not-a-run``, and those of `Configuration.read`.
        """
        self.check_there()
        path = self.configuration_path
        if state(path) == "damaged":
            raise errors.FileDamaged(
                f"{path} is not what moso wrote into it (its checksum differs), and nothing else says what the run is; "
                "restore it, or take out its first line if you mean the change"
            )
        values = read_toml(path)
        if "dataset" not in values:
            raise errors.FileDamaged(
                f"{path} is empty or cut off: it names no data, and nothing else says what the run is; restore it"
            )
        note_names(network_names(values), path)
        return Configuration.resolve(values)

    def check_there(self) -> None:
        """Refuse a directory without a run.

        Raises:
            MosoError: ``not-a-run``.
        """
        if not self.configuration_path.exists():
            raise errors.NotARun(f"{self} is not a run directory: it has no run.toml")

    def manifest(self) -> Manifest:
        """Read `manifest.json`: what is recorded about the run beyond its configuration; empty if there is none.

        Raises:
            MosoError: ``file-damaged``, ``format-unknown``.
        """
        path = self.root / "manifest.json"
        if not path.exists():
            return {}
        found = cast(Manifest, read_record(path))
        if found.get("format") != FORMAT:
            raise errors.FormatUnknown(f"{path} has format {found.get('format')}; this version reads format {FORMAT}")
        return found

    def known_data(self) -> dict[str, str] | None:
        """Return the fingerprint of the data of a run whose manifest is lost; None if nothing was made from data yet.

        The event of the run's beginning repeats the fingerprint, so that a lost manifest cannot hide that the data has
        changed under pieces that are complete.

        Raises:
            MosoError: ``file-missing`` if there are pieces, and nothing says of which data.
        """
        noted = [event["fingerprint"] for event in self.events() if event["event"] == "data"]
        if noted:
            return noted[-1]
        before = {self.configuration_path.name, "events.jsonl", "damaged", "overrides", *PREPARED}
        made = sorted(one.name for one in self.root.iterdir() if one.name not in before and one.name[0] != ".")
        if made:
            raise errors.FileMissing(
                f"{self} has no manifest.json, and nothing else says from which data its {made[0]} was made; restore "
                "the file from a copy, or use another directory (out)"
            )
        return None

    def note(self, **entries: object) -> None:
        """Add entries to the manifest."""
        write_record(self.root / "manifest.json", {"format": FORMAT, **self.manifest(), **entries})

    def event(self, event: str, **details: object) -> None:
        """Append an event to `events.jsonl`, or to the events file of `writer`.

        Short lines from several processes of one machine do not interleave.
        """
        line = json.dumps({"time": round(time.time(), 3), "event": event, **details}) + "\n"
        path = self.root / "events.jsonl"
        if self.writer:
            path = self.root / "events" / f"{self.writer}.jsonl"
            path.parent.mkdir(exist_ok=True)
        append(path, line)

    def events(self) -> list[Event]:
        """Return the events of all machines, sorted by time; lines that cannot be read are left out.

        A kill may cut the last line short; of any other line that cannot be read, a notice is given.
        """
        everybody = [self.root / "events.jsonl", *sorted((self.root / "events").glob("*.jsonl"))]
        found = []
        for path in everybody:
            lines = path.read_bytes().splitlines() if path.exists() else []
            read = [event_of(line) for line in lines]
            found += [event for event in read if event is not None]
            bad = [number for number, event in enumerate(read[:-1], 1) if event is None]
            if bad:
                more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
                warnings.warn(f"line {bad[0]}{more} of {path} cannot be read and is left out", stacklevel=2)
        return sorted(found, key=lambda event: event["time"]) if len(everybody) > 1 else found

    @property
    def watch_seconds(self) -> float:
        """Seconds between two reports of progress, and between two polls; longer at an address (each is a request)."""
        return WATCH_SECONDS if self.copy is None else FAR_WATCH_SECONDS

    def show(self, name: str, text: str) -> None:
        """Write the heartbeat of a running piece; a failed write is ignored, because the next one follows."""
        with contextlib.suppress(OSError, MosoError):
            if self.copy is not None:
                replace(self.copy.store, tries=1).write(f"{_SIGNS}/{name}", text)
            else:
                with replacing(self.root / _SIGNS / name, durable=False) as temporary:
                    temporary.write_text(text, encoding="utf-8")

    def hide(self, name: str) -> None:
        """Remove a heartbeat, and the folder after the last one."""
        with contextlib.suppress(OSError, MosoError):
            if self.copy is not None:
                replace(self.copy.store, tries=1).remove([f"{_SIGNS}/{name}"])
            else:
                (self.root / _SIGNS / name).unlink(missing_ok=True)
                (self.root / _SIGNS).rmdir()

    def signs(self) -> list[str]:
        """Return the last heartbeats of running pieces; that of a killed process stays until its piece is done."""
        if self.copy is not None:
            found = [self.copy.store.read(name) for name in sorted(self.copy.store.versions(_SIGNS))]
            return [text for text in found if text is not None]
        texts = []
        for path in sorted((self.root / _SIGNS).glob("*.json")):
            # The piece may finish, and remove its heartbeat, before the file is read.
            with contextlib.suppress(FileNotFoundError):
                texts.append(path.read_text(encoding="utf-8", errors="replace"))
        return texts

    def seconds(self, stage: str) -> dict[str, float]:
        """Return the seconds of computation per piece of a stage, summed over interruptions and resumes."""
        total: dict[str, float] = {}
        for event in self.events():
            if event["event"] == "computed" and event["stage"] == stage:
                total[event["piece"]] = total.get(event["piece"], 0.0) + event["seconds"]
        return total


def event_of(line: bytes) -> Event | None:
    """Return the event of a line, or None if the line is damaged or lacks what an event of its kind has.

    Example:
        >>> event_of(b'{"time": 2, "event": "complete", "stage": "train"}')["stage"]
        'train'
        >>> event_of(b'{"time": 2, "event": "complete", "stag') is None
        True
    """
    try:
        found = json.loads(line)
        needed = {"time": (int, float), "event": str, **EVENT_ENTRIES.get(found["event"], {})}
        if all(isinstance(found[name], kind) for name, kind in needed.items()):
            return cast(Event, found)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def surroundings() -> Surroundings:
    """Return the versions of packages and the description of the machine, for the manifest."""
    packages = {name: version(name) for name in ("torch", "numpy", "scipy", "pyarrow", "safetensors")}
    return {
        "versions": {"moso": __version__, "python": platform.python_version(), **packages},
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
    }
