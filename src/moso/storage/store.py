"""A run at an address: the files of a run as objects that every machine sees, through fsspec.

Whatever fsspec opens will do: `s3://bucket/run`, `gs://...`, `file:///mnt/run`, `memory://run` within one process. An
object is whole or not there: object stores promise that of a single upload, and elsewhere it is sent to a name of its
own and moved. What fails for a moment is tried again, with growing pauses; but only at an address that has answered
before, because one that never did is more likely to be wrong than to be busy.

Retries are hand-made, though tenacity has them: whether to try again depends on what the address did before.
"""

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from moso import errors
from moso.errors import MosoError
from moso.files import TEMPORARY, replacing

# Seconds before the second try, the third, and so on.
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# Where an upload is seen when it is complete, and not before.
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci"})
# What tells one version of an object from another; each file system has some of these.
_VERSION = ("size", "ETag", "etag", "LastModified", "last_modified", "mtime", "updated", "created")
# How deep something may lie in folders to be seen from above.
_DEPTH = 4
# Of what a store says about a problem, so many characters are enough.
_REASON = 200
_EXTRAS = {"s3": "store", "s3a": "store"}

Found = TypeVar("Found")


def is_address(place: str | Path) -> bool:
    """Whether something is an address and not a path.

    >>> is_address("s3://bucket/run"), is_address("runs/demo"), is_address("C:/runs")
    (True, False, False)
    """
    return isinstance(place, str) and _ADDRESS.match(place) is not None


@dataclass
class _Contact:
    """Whether the last word from an address was an answer, and whether there ever was one."""

    answered: bool = False
    ever: bool = False


@dataclass(frozen=True)
class Store:
    """The objects below an address, by their names relative to it; `tries` is how often one is asked for at most.

    >>> store = Store.of("memory://doctest/run")
    >>> store.write("a/note.json", "{}")
    >>> store.create("a/note.json", "[]"), store.read("a/note.json"), list(store.versions())
    (False, '{}', ['a/note.json'])
    >>> store.remove(["a/note.json"])
    >>> store.read("a/note.json") is None, Store.of("runs/demo") is None
    (True, True)
    """

    address: str
    tries: int = 1 + len(PAUSES)
    _contact: _Contact = field(default_factory=_Contact, compare=False, repr=False)

    @classmethod
    def of(cls, place: str | Path) -> "Store | None":
        """The store at an address whose protocol is known and installed; None for a path."""
        if not is_address(place):
            return None
        protocol, _, rest = str(place).partition("://")
        if not rest.strip("/"):
            raise errors.AddressInvalid(
                f"{place} names no place; give a bucket or folder as well, such as {protocol}://bucket/run"
            )
        store = cls(str(place).rstrip("/"))
        if store.protocol in ("file", "local"):
            # The same place for processes of another working directory.
            store = cls(f"file://{store._root}")
        assert store._files is not None
        return store

    @property
    def protocol(self) -> str:
        """What is before `://`."""
        return self.address.partition("://")[0]

    @property
    def is_of_one_process(self) -> bool:
        """Whether other processes see something else at this address, or nothing."""
        return self.protocol == "memory"

    @cached_property
    def _files(self) -> Any:
        import fsspec

        try:
            return fsspec.url_to_fs(self.address)[0]
        except ImportError as problem:
            extra = _EXTRAS.get(self.protocol)
            what = f'pip install "moso-prune[{extra}]"' if extra else str(problem)
            raise errors.PackageMissing(f"{self.address} needs a package that is not installed: {what}") from problem
        except ValueError as problem:
            raise errors.AddressInvalid(
                f"{self.address}: nothing is known about {self.protocol}:// ({problem}); use a path, s3://, gs:// or "
                "another protocol that fsspec knows"
            ) from problem

    @cached_property
    def _root(self) -> str:
        return str(self._files._strip_protocol(self.address)).rstrip("/")

    def versions(self, below: str = "") -> dict[str, str]:
        """All objects, or those below a folder, each with what is different where its content is."""
        root = self._path(below) if below else self._root

        def look() -> dict[str, str]:
            self._files.invalidate_cache()
            found = self._files.find(root, detail=True)
            return {
                path[len(self._root) + 1 :]: " ".join(str(about[one]) for one in _VERSION if one in about)
                for path, about in found.items()
                if about.get("type") == "file" and len(path) > len(self._root)
            }

        return self._tried("read", look, {})

    def top(self) -> list[str]:
        """What a person sees first at the address: names of files and of folders that are not empty."""

        def look() -> list[str]:
            self._files.invalidate_cache()
            if self.protocol in _OBJECT_STORES:
                found = self._files.ls(self._root, detail=False)
            else:
                found = self._files.find(self._root, maxdepth=_DEPTH)
            return sorted({str(path)[len(self._root) :].strip("/").partition("/")[0] for path in found})

        return self._tried("read", look, [])

    def read(self, name: str) -> str | None:
        """The text of an object; None where there is none."""

        def look() -> str | None:
            self._files.invalidate_cache()
            return bytes(self._files.cat_file(self._path(name))).decode("utf-8")

        return self._tried("read", look, None)

    def write(self, name: str, text: str) -> None:
        """Write a text, all at once, over what was there."""
        self._tried("written", lambda: self._whole(name, lambda path: self._files.pipe_file(path, text.encode())))

    def create(self, name: str, text: str) -> bool:
        """Write a text where there is none; False where there is one.

        Not every store keeps two apart who try at once.
        """

        def make() -> bool:
            self._make_folder(name)
            self._files.invalidate_cache()
            try:
                if self.protocol == "file":
                    with self._files.open(self._path(name), "xb") as file:
                        file.write(text.encode())
                else:
                    self._files.pipe_file(self._path(name), text.encode(), mode="create")
            except OSError:
                # Some say that it exists, some that a condition is not met.
                if self.read(name) is None:
                    raise
                return False
            return True

        return self._tried("written", make)

    def send(self, path: Path, name: str) -> None:
        """Upload a file, all at once; one that is gone by then is passed over."""

        def send() -> None:
            try:
                self._whole(name, lambda remote: self._files.put_file(str(path), remote))
            except FileNotFoundError:
                if path.exists():
                    raise

        self._tried("written", send)

    def fetch(self, name: str, path: Path) -> bool:
        """Download an object, all at once; False where it is gone by then."""

        def fetch() -> bool:
            with replacing(path, durable=False) as temporary:
                self._files.get_file(self._path(name), str(temporary))
            return True

        return self._tried("read", fetch, False)

    def remove(self, names: Iterable[str]) -> None:
        """Take objects away; those that are gone already are passed over."""
        for name in names:
            self._tried("written", lambda name=name: self._files.rm_file(self._path(name)), None)  # type: ignore[misc]

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _whole(self, name: str, write: Callable[[str], object]) -> None:
        """Let `write` make an object that nobody sees before it is complete."""
        path = self._path(name)
        if self.protocol in _OBJECT_STORES:
            write(path)
            return
        self._make_folder(name)
        temporary = f"{path}.{uuid4().hex}{TEMPORARY}"
        write(temporary)
        self._files.mv(temporary, path)

    def _make_folder(self, name: str) -> None:
        if self.protocol not in _OBJECT_STORES:
            self._files.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)

    def _tried(self, what: str, action: Callable[[], Found], missing: Any = ...) -> Found:
        """What an action gives, tried again while it may be a matter of time; `missing` where nothing is there."""
        for pause in (*PAUSES[: self.tries - 1], None):
            try:
                found = action()
            except FileNotFoundError as problem:
                if missing is ...:
                    raise self._problem(what, problem) from problem
                found = missing
            except MosoError:
                raise
            except Exception as problem:
                if not _is_of_the_store(problem):
                    raise
                if _is_final(problem) or pause is None or not self._contact.answered:
                    # One try is too few to tell.
                    self._contact.answered &= self.tries == 1
                    raise self._problem(what, problem) from problem
                time.sleep(pause)
                continue
            self._contact.answered = self._contact.ever = True
            return found
        raise AssertionError("the last try returns or raises")

    def _problem(self, what: str, problem: Exception) -> MosoError:
        reason = " ".join(str(problem).split())[:_REASON].rstrip(".") or type(problem).__name__
        match problem:
            case PermissionError():
                said = f"{self.address} may not be {what} by you ({reason}); look at its credentials and rights"
            case FileNotFoundError():
                said = f"{self.address} cannot be {what}: there is no such bucket or folder ({reason}); make it first"
            case NotImplementedError():
                said = f"{self.address} cannot be {what}: {self.protocol}:// offers no way to ({reason})"
            case _ if not self._contact.ever:
                said = (
                    f"{self.address} does not answer ({reason}); look at the address, its credentials and the network"
                )
            case _:
                said = f"{self.address} could not be {what} ({reason}); what was complete is kept, start again to go on"
        return errors.StorageFailed(said)


def _is_of_the_store(problem: Exception) -> bool:
    """Whether an error comes from outside: file systems have errors of their own, a mistake of ours is a plain one."""
    return isinstance(problem, OSError | NotImplementedError) or type(problem).__module__ != "builtins"


def _is_final(problem: Exception) -> bool:
    return isinstance(problem, PermissionError | NotImplementedError)
