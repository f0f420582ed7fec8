"""Verification of a run directory: which of its files are whole, which are damaged, which are missing.

Every file is read and compared with the checksum that it carries (`moso.checksums`). A damaged file is set aside in
`damaged/`, together with what declares it complete; the stages of the run then find its piece undone and do it again.
`mended` does both for a command that carries out whole stages.
"""

import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from moso.checksums import state
from moso.errors import FileDamaged, MosoError
from moso.evidence import arrays
from moso.evidence.state_files import check_state
from moso.files import TEMPORARY, append, read_arrays, read_record, read_table
from moso.results.directory import RunDirectory, event_of
from moso.results.missing_files import missing_files
from moso.results.overrides import overrides_digest
from moso.storage.lease import NAME as LEASE

Result = TypeVar("Result")
ASIDE = "damaged"
CONFIGURATION = "run.toml"
_READERS: dict[str, Callable[[Path], object]] = {
    ".json": read_record,
    ".npz": read_arrays,
    ".npy": arrays.read,
    ".parquet": read_table,
    ".safetensors": check_state,
}


@dataclass(frozen=True)
class Damage:
    """A damaged file.

    Attributes:
        file: Its path below the run directory.
        reason: What is wrong with it.
        remedy: What brings it back.
    """

    file: str
    reason: str
    remedy: str


@dataclass(frozen=True)
class Verification:
    """What reading every file of a run found.

    Attributes:
        whole: Number of files that are as they were written.
        without: Number of files without a checksum: of an earlier version, or for people (pages, plots, logs).
        damaged: The damaged files.
        missing: Files that others declare to be there, below the run directory.
        repaired: Whether the damaged files were set aside.
    """

    whole: int
    without: int
    damaged: tuple[Damage, ...] = ()
    missing: tuple[str, ...] = ()
    repaired: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether nothing is damaged and nothing is missing."""
        return not self.damaged and not self.missing


def verify(directory: RunDirectory) -> Verification:
    """Read every file of a run and compare it with its checksum; nothing is changed.

    Args:
        directory: The run directory; the files of a run at an address are downloaded.

    Raises:
        MosoError: ``not-a-run``, ``storage-failed``.

    Example:
        >>> import moso, numpy as np, tempfile
        >>> out = tempfile.mkdtemp() + "/run"
        >>> pixels, labels = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype("uint8"), np.arange(40) % 2
        >>> _ = moso.prune((pixels, labels), ratio=0.5, model="mlp-w8", recipe="quick", time_steps=2, out=out)
        >>> moso.Run.open(out).verify().is_whole
        True
    """
    directory.pull(lambda name: True)
    directory.check_there()
    counts, damages = {"whole": 0, "without": 0}, []
    for path in _files(directory.root):
        name = path.relative_to(directory.root).as_posix()
        try:
            counts[_look(path)] += 1
        except MosoError as problem:
            damages.append(Damage(name, _reason(str(problem)), _remedy(name)))
    broken = {one.file for one in damages}
    readable = CONFIGURATION not in broken
    missing = [name for name in missing_files(directory) if name not in broken] if readable else []
    return Verification(counts["whole"], counts["without"], tuple(damages), tuple(missing))


def repair(directory: RunDirectory) -> Verification:
    """Set aside what is damaged, so that the run's own command does it again; `damaged/` keeps it.

    The caller holds the lock of the directory. A damaged `run.toml` stays: nothing else says what the run is.

    Returns:
        What was found before.
    """
    if directory.copy is not None:
        # The object may be whole: take the damaged copy away, and look at what comes down again.
        for one in verify(directory).damaged:
            (directory.root / one.file).unlink(missing_ok=True)
    found = verify(directory)
    for one in found.damaged:
        if one.file != CONFIGURATION:
            _set_aside(directory, one.file)
    return Verification(found.whole, found.without, found.damaged, found.missing, repaired=True)


def mended(directory: RunDirectory, work: Callable[[], Result], locked: bool = True) -> Result:
    """Do work on a run; if it meets a damaged file, set aside what is damaged and do the work again.

    Args:
        directory: The run directory.
        work: The work, which skips what is complete.
        locked: Whether the caller holds the lock of the directory.

    Raises:
        MosoError: Those of the work; ``file-damaged`` if a file cannot be set aside, or is damaged again.
    """
    before: set[str] = set()
    while True:
        try:
            return work()
        except FileDamaged:
            with nullcontext() if locked else directory.locked():
                found = repair(directory)
            files = {one.file for one in found.damaged} - {CONFIGURATION}
            if not files - before:
                raise
            before |= files
            for one in found.damaged:
                if one.file in files:
                    warnings.warn(
                        f"{directory}/{one.file} is damaged ({one.reason}) and was set aside in {ASIDE}/: {one.remedy}",
                        stacklevel=2,
                    )


def _files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        passing = parts[0] == ASIDE or parts[:2] == ("state", "running") or path.name.startswith(LEASE)
        if path.is_file() and not passing and TEMPORARY not in path.name and ".partial" not in path.name:
            yield path


def _look(path: Path) -> str:
    """Read one file; return whether it is whole or has no checksum."""
    if path.name == CONFIGURATION:
        RunDirectory(path.parent).configuration()
    elif path.suffix == ".jsonl":
        _check_events(path)
    elif path.suffix == ".csv" and path.parent.name == "overrides":
        if overrides_digest(path) != path.stem:
            raise FileDamaged("its decisions are not those that its name is the hash of")
        return "whole"
    elif path.suffix in _READERS:
        _READERS[path.suffix](path)
    return "whole" if state(path) == "whole" else "without"


def _check_events(path: Path) -> None:
    bad = sum(event_of(line) is None for line in path.read_bytes().splitlines())
    if bad:
        raise FileDamaged(f"{bad} of its lines cannot be read and are left out")


def _reason(sentence: str) -> str:
    """Return the middle of the sentence of `damaged`, without the path and the advice around it."""
    return sentence.partition(" is damaged: ")[2].partition("; the command that wrote it")[0] or sentence


def _remedy(name: str) -> str:
    if name == CONFIGURATION:
        return "restore it from a copy; nothing else says what the run is"
    if name.endswith(".jsonl"):
        return "the other lines stay; they say when and how long, and no result follows from them"
    if name.startswith("overrides/"):
        return "give --overrides FILE again"
    return "the run's own command does it again (yours: give --scores or --indices again)"


def _set_aside(directory: RunDirectory, name: str) -> None:
    root = directory.root
    if name.endswith(".jsonl"):
        lines = (root / name).read_bytes().splitlines(keepends=True)
        _move(root, name)
        append(root / name, b"".join(line for line in lines if event_of(line) is not None).decode())
        return
    for one in (name, *_declaring(root, name)):
        if (root / one).exists():
            _move(root, one)
    if directory.copy is not None:
        directory.copy.forget([name, *_declaring(root, name)])


def _move(root: Path, name: str) -> None:
    target = root / ASIDE / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(root / name, target)


def _declaring(root: Path, name: str) -> list[str]:
    """Return the files that declare a file to be complete, or that mean nothing without it."""
    path = root / name
    folders = path.relative_to(root).parts
    if "dynamics" in folders:
        found = [path.parent / "dynamics.json"]
    elif "replay" in folders:
        found = list(path.parent.glob("*.safetensors"))
    elif any(one.startswith("cross-terms") for one in folders):
        found = [path.parent / "complete.json"]
    else:
        found = [path.with_suffix(".json")] if path.suffix in (".npy", ".parquet") else []
    return [one.relative_to(root).as_posix() for one in found if one != path]
