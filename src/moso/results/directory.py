"""The run directory: where everything a run knows is kept, and who may write to it."""

import contextlib
import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from moso import errors
from moso.configuration import Configuration
from moso.configuration.configuration import FORMAT
from moso.errors import MosoError
from moso.files import TEMPORARY, append, replacing, sweep, write_json, write_text
from moso.results.working_copy import Wanted, WorkingCopy, is_small_file
from moso.storage.lease import NAME, Holder, held
from moso.storage.lease_backend import FileLease, LeaseBackend, StoreLease, read_lease
from moso.storage.store import Store
from moso.version import __version__

WATCH_SECONDS = 2.0
FAR_WATCH_SECONDS = 10.0
_SIGNS = "state/running"


@dataclass(frozen=True)
class RunDirectory:
    """The paths of a run, its manifest, its events and its lock.

    `writer` is the name of a process that writes events beside others on other machines, into a file of its own. A run
    at an address has a `copy` on this machine, and its `root` is there.

    >>> str(RunDirectory.at("runs/demo")), str(RunDirectory.at("memory://demo/"))
    ('runs/demo', 'memory://demo')
    """

    root: Path
    writer: str = ""
    copy: WorkingCopy | None = None

    @classmethod
    def at(cls, place: Path | str, writer: str = "", scratch: Path | None = None) -> "RunDirectory":
        """The run at a path or an address; `scratch` is where its copy is, if not in the cache folder."""
        store = Store.of(place)
        if store is None:
            return cls(Path(place), writer)
        copy = WorkingCopy.of(store, scratch)
        return cls(copy.root, writer, copy)

    def __str__(self) -> str:
        return str(self.root) if self.copy is None else self.copy.store.address

    def named(self, path: Path) -> str:
        """What a person calls a file: by the run's address where it belongs to a run that has one."""
        if self.copy is None or not path.is_relative_to(self.root):
            return str(path)
        return f"{self}/{path.relative_to(self.root).as_posix()}"

    @property
    def configuration_path(self) -> Path:
        """`run.toml`."""
        return self.root / "run.toml"

    def of_seed(self, configuration: Configuration, seed: int) -> Path:
        """Where the surrogates and scores of a seed are: the root for the first, a folder of its own for others."""
        return self.root if seed == configuration.seed else self.root / "seeds" / f"seed-{seed:05d}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory; a second run on it is refused. The lock ends with the process that holds it."""
        with ExitStack() as holding:
            try:
                self.root.mkdir(parents=True, exist_ok=True)
                if self.copy is not None:
                    self.copy.check()
                holding.enter_context(held(self._lease))
            except OSError as problem:
                raise errors.NotWritable(f"cannot write to {self.root}: {problem.strerror}") from problem
            sweep(self.root)
            if self.copy is not None:
                self.copy.pull(lambda name: is_small_file(name) or "shards" in name, leading=True)
                self.copy.push()  # what an earlier run here could not send
            holding.enter_context(self._told())
            yield

    @property
    def _lease(self) -> LeaseBackend:
        return FileLease(self.root / NAME) if self.copy is None else StoreLease(self.copy.store, self.root)

    def holder(self) -> Holder | None:
        """Who works in the directory, if anybody does."""
        return read_lease(self._lease)

    def check_seen_by_others(self) -> None:
        """Refuse what exists in this process alone where others are to work on it."""
        if self.copy is not None and self.copy.store.is_of_one_process:
            raise errors.ExecutorUnsuitable(
                f"{self} is seen by this process alone; use another address, or --workers 1"
            )

    def pull(self, wanted: Wanted = is_small_file) -> None:
        """Bring what others left at the run's address, if it has one."""
        if self.copy is not None:
            self.copy.pull(wanted)

    def push(self, *written: Path) -> None:
        """Send what is new here to the run's address, if it has one; who does not hold the run says what they wrote."""
        if self.copy is not None:
            own = [path for path in written if path.is_relative_to(self.root)]
            self.copy.push(lambda name: not written or any((self.root / name).is_relative_to(path) for path in own))

    @contextmanager
    def shared(self, wanted: Wanted) -> Iterator[None]:
        """Work on what others left, and leave it to others; at an address, what is wanted comes first."""
        self.pull(wanted)
        with self._told():
            yield

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Push after work that ends well; of work that does not, say so where the run is."""
        try:
            yield
        except MosoError:
            if self.copy is not None:
                hasty = replace(self.copy, store=replace(self.copy.store, tries=1))
                # What went wrong first is what counts, and all of it is still here.
                with contextlib.suppress(MosoError):
                    hasty.push(lambda name: name.startswith("events"))
            raise
        self.push()

    def settle(self, configuration: Configuration) -> None:
        """Write the configuration of a new run, or see that an old run has the same one."""
        if not self.configuration_path.exists():
            foreign = [path.name for path in self.root.iterdir() if path.name != NAME and TEMPORARY not in path.name]
            if foreign:
                raise errors.NotARun(
                    f"{self} is not empty and not a run directory (it holds {foreign[0]}); use another --out"
                )
            write_text(self.configuration_path, configuration.to_toml())
            return
        found = self.configuration()
        different = found.difference(configuration)
        if different:
            raise errors.RunDiffers(
                f"{self} holds a run of another configuration ({', '.join(different)} differ); "
                "use another --out, or delete it"
            )

    def configuration(self) -> Configuration:
        """The configuration of the run that is here."""
        if not self.configuration_path.exists():
            raise errors.NotARun(f"{self} is not a run directory: it has no run.toml")
        return Configuration.read(self.configuration_path)

    def manifest(self) -> dict[str, Any]:
        """What is known about the run beyond its configuration; empty where nothing is."""
        path = self.root / "manifest.json"
        if not path.exists():
            return {}
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as problem:
            raise errors.FileUnreadable(f"{path} is not valid JSON: {problem}") from problem
        if found.get("format") != FORMAT:
            raise errors.FormatUnknown(f"{path} has format {found.get('format')}; this version reads format {FORMAT}")
        return found

    def note(self, **entries: Any) -> None:
        """Add entries to the manifest."""
        write_json(self.root / "manifest.json", {"format": FORMAT, **self.manifest(), **entries})

    def event(self, event: str, **details: Any) -> None:
        """Append a line to `events.jsonl`; short lines from several processes of one machine do not mix."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, **details}) + "\n"
        path = self.root / "events.jsonl"
        if self.writer:
            path = self.root / "events" / f"{self.writer}.jsonl"
            path.parent.mkdir(exist_ok=True)
        append(path, line)

    def events(self) -> list[dict[str, Any]]:
        """All events so far, of all machines by time; a line that a kill cut short is passed over."""
        everybody = [self.root / "events.jsonl", *sorted((self.root / "events").glob("*.jsonl"))]
        found = []
        for path in everybody:
            for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
                try:
                    found.append(json.loads(line))
                except ValueError:
                    continue
        return sorted(found, key=lambda event: float(event["time"])) if len(everybody) > 1 else found

    @property
    def watch_seconds(self) -> float:
        """How often it is worth saying, and asking, how far a piece is: at an address every time costs a request."""
        return WATCH_SECONDS if self.copy is None else FAR_WATCH_SECONDS

    def show(self, name: str, text: str) -> None:
        """Leave a sign of a piece at work; one that does not get through costs nothing, the next one comes."""
        with contextlib.suppress(OSError, MosoError):
            if self.copy is not None:
                replace(self.copy.store, tries=1).write(f"{_SIGNS}/{name}", text)
            else:
                with replacing(self.root / _SIGNS / name, durable=False) as temporary:
                    temporary.write_text(text, encoding="utf-8")

    def hide(self, name: str) -> None:
        """Take a sign away; the last one takes the folder."""
        with contextlib.suppress(OSError, MosoError):
            if self.copy is not None:
                replace(self.copy.store, tries=1).remove([f"{_SIGNS}/{name}"])
            else:
                (self.root / _SIGNS / name).unlink(missing_ok=True)
                (self.root / _SIGNS).rmdir()

    def signs(self) -> list[str]:
        """What pieces at work last said; one whose process was killed stays until it is done again."""
        if self.copy is not None:
            found = [self.copy.store.read(name) for name in sorted(self.copy.store.versions(_SIGNS))]
            return [text for text in found if text is not None]
        texts = []
        for path in sorted((self.root / _SIGNS).glob("*.json")):
            # It may be done, and gone, by the time it is read.
            with contextlib.suppress(FileNotFoundError):
                texts.append(path.read_text(encoding="utf-8"))
        return texts

    def seconds(self, stage: str) -> dict[str, float]:
        """Seconds of computation of every piece of a stage, kills and resumes added up."""
        total: dict[str, float] = {}
        for event in self.events():
            if event["event"] == "computed" and event["stage"] == stage:
                total[event["piece"]] = total.get(event["piece"], 0.0) + event["seconds"]
        return total


def surroundings() -> dict[str, Any]:
    """The versions and the machine a run was made with."""
    packages = {name: version(name) for name in ("torch", "numpy", "scipy", "pyarrow", "safetensors")}
    return {
        "versions": {"moso": __version__, "python": platform.python_version(), **packages},
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
    }
