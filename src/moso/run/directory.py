"""The run directory: where everything a run knows is kept, and who may write to it."""

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from moso.errors import MosoError
from moso.files import TEMPORARY, sweep, write_json, write_text
from moso.run.configuration import FORMAT, Configuration
from moso.run.lease import NAME, Holder, held, read_holder
from moso.version import __version__


@dataclass(frozen=True)
class RunDirectory:
    """The paths of a run, its manifest, its events and its lock.

    `writer` is the name of a process that writes events beside others on other machines, into a file of its own.
    """

    root: Path
    writer: str = ""

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
                holding.enter_context(held(self.root / NAME))
            except OSError as problem:
                raise MosoError(f"cannot write to {self.root}: {problem.strerror}") from problem
            sweep(self.root)
            yield

    def holder(self) -> Holder | None:
        """Who works in the directory, if anybody does."""
        return read_holder(self.root / NAME)

    def settle(self, configuration: Configuration) -> None:
        """Write the configuration of a new run, or see that an old run has the same one."""
        if not self.configuration_path.exists():
            foreign = [path.name for path in self.root.iterdir() if path.name != NAME and TEMPORARY not in path.name]
            if foreign:
                raise MosoError(
                    f"{self.root} is not empty and not a run directory (it holds {foreign[0]}); use another --out"
                )
            write_text(self.configuration_path, configuration.to_toml())
            return
        found = self.configuration()
        different = found.difference(configuration)
        if different:
            raise MosoError(
                f"{self.root} holds a run of another configuration ({', '.join(different)} differ); "
                "use another --out, or delete it"
            )

    def configuration(self) -> Configuration:
        """The configuration of the run that is here."""
        if not self.configuration_path.exists():
            raise MosoError(f"{self.root} is not a run directory: it has no run.toml")
        return Configuration.read(self.configuration_path)

    def manifest(self) -> dict[str, Any]:
        """What is known about the run beyond its configuration; empty where nothing is."""
        path = self.root / "manifest.json"
        if not path.exists():
            return {}
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as problem:
            raise MosoError(f"{path} is not valid JSON: {problem}") from problem
        if found.get("format") != FORMAT:
            raise MosoError(f"{path} has format {found.get('format')}; this version reads format {FORMAT}")
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
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

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
