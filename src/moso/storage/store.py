"""A store: files as objects at an address that every machine sees, through fsspec.

Any protocol of fsspec works: `s3://bucket/run`, `gs://...`, `file:///mnt/run`, `memory://run` within one process.
Writes are atomic: object stores guarantee that for a single upload; elsewhere the object is sent to a temporary name
and moved. Failed requests are retried with growing pauses, but only at an address that has answered before, because an
address that never answered is more likely to be wrong than busy.

Retries are hand-made although tenacity offers them: whether to retry depends on earlier answers of the address.
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

# Seconds before the second attempt, the third, and so on.
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# Protocols with atomic uploads: an object is visible once its upload is complete.
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci"})
# Attributes that differ between versions of an object; each file system has some of these.
_VERSION = ("size", "ETag", "etag", "LastModified", "last_modified", "mtime", "updated", "created")
# How many levels of folders `top` searches for files.
_DEPTH = 4
# Length, in characters, to which the error message of a store is cut.
_REASON = 200
_EXTRAS = {"s3": "store", "s3a": "store"}

Found = TypeVar("Found")


def is_address(place: str | Path) -> bool:
    """Return whether `place` is an address such as `s3://bucket/run` and not a path.

    Example:
        >>> is_address("s3://bucket/run"), is_address("runs/demo"), is_address("C:/runs")
        (True, False, False)
    """
    return isinstance(place, str) and _ADDRESS.match(place) is not None


@dataclass
class _Contact:
    """Whether the last request to an address was answered, and whether any request ever was."""

    answered: bool = False
    ever: bool = False


@dataclass(frozen=True)
class Store:
    """The objects below an address, by their names relative to it.

    Attributes:
        address: The address, without a slash at the end.
        tries: Largest number of attempts per request.

    Example:
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
        """Return the store at an address, or None for a path.

        Raises:
            MosoError: ``address-invalid``; ``package-missing`` if the package for the protocol is not installed.
        """
        if not is_address(place):
            return None
        protocol, _, rest = str(place).partition("://")
        if not rest.strip("/"):
            raise errors.AddressInvalid(
                f"{place} names no place; give a bucket or folder as well, such as {protocol}://bucket/run"
            )
        store = cls(str(place).rstrip("/"))
        if store.protocol in ("file", "local"):
            # An absolute path is the same place for processes with another working directory.
            store = cls(f"file://{store._root}")
        assert store._files is not None
        return store

    @property
    def protocol(self) -> str:
        """The part of the address before `://`."""
        return self.address.partition("://")[0]

    @property
    def is_of_one_process(self) -> bool:
        """Whether only this process sees the objects (`memory://`)."""
        return self.protocol == "memory"

    @cached_property
    def _files(self) -> Any:
        import fsspec

        try:
            return fsspec.url_to_fs(self.address)[0]
        except ImportError as problem:
            extra = _EXTRAS.get(self.protocol)
            if extra is None:
                raise errors.PackageMissing(
                    f"{self.address} needs a package that is not installed: {problem}"
                ) from problem
            raise errors.package_missing(f"a package for {self.protocol}://", extra, self.address) from problem
        except ValueError as problem:
            raise errors.AddressInvalid(
                f"{self.address}: nothing is known about {self.protocol}:// ({problem}); use a path, s3://, gs:// or "
                "another protocol that fsspec knows"
            ) from problem

    @cached_property
    def _root(self) -> str:
        return str(self._files._strip_protocol(self.address)).rstrip("/")

    def versions(self, below: str = "") -> dict[str, str]:
        """Return the version of every object, or of every object below a folder, by name.

        A version is a text that changes when the content of the object changes.

        Raises:
            MosoError: ``storage-failed``.
        """
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
        """Return the sorted names of the files and non-empty folders directly at the address."""

        def look() -> list[str]:
            self._files.invalidate_cache()
            if self.protocol in _OBJECT_STORES:
                found = self._files.ls(self._root, detail=False)
            else:
                found = self._files.find(self._root, maxdepth=_DEPTH)
            return sorted({str(path)[len(self._root) :].strip("/").partition("/")[0] for path in found})

        return self._tried("read", look, [])

    def read(self, name: str) -> str | None:
        """Return the text of an object, or None if there is none.

        Raises:
            MosoError: ``storage-failed``.
        """

        def look() -> str | None:
            self._files.invalidate_cache()
            return bytes(self._files.cat_file(self._path(name))).decode("utf-8")

        return self._tried("read", look, None)

    def write(self, name: str, text: str) -> None:
        """Write a text atomically, replacing an earlier object.

        Raises:
            MosoError: ``storage-failed``.
        """
        self._tried("written", lambda: self._whole(name, lambda path: self._files.pipe_file(path, text.encode())))

    def create(self, name: str, text: str) -> bool:
        """Write a text unless an object of this name exists, and return whether it was written.

        Not every store makes this atomic: of two concurrent calls, both may return True.

        Raises:
            MosoError: ``storage-failed``.
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
                # Stores report an existing object in different ways: as existing, or as a condition that is not met.
                if self.read(name) is None:
                    raise
                return False
            return True

        return self._tried("written", make)

    def send(self, path: Path, name: str) -> None:
        """Upload a file atomically; a file that has been removed meanwhile is skipped.

        Raises:
            MosoError: ``storage-failed``.
        """

        def send() -> None:
            try:
                self._whole(name, lambda remote: self._files.put_file(str(path), remote))
            except FileNotFoundError:
                if path.exists():
                    raise

        self._tried("written", send)

    def fetch(self, name: str, path: Path) -> bool:
        """Download an object atomically to `path`; return False if it no longer exists.

        Raises:
            MosoError: ``storage-failed``.
        """

        def fetch() -> bool:
            with replacing(path, durable=False) as temporary:
                self._files.get_file(self._path(name), str(temporary))
            return True

        return self._tried("read", fetch, False)

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; missing ones are skipped.

        Raises:
            MosoError: ``storage-failed``.
        """
        for name in names:
            self._tried("written", lambda name=name: self._files.rm_file(self._path(name)), None)  # type: ignore[misc]

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _whole(self, name: str, write: Callable[[str], object]) -> None:
        """Let `write` make an object atomically: it becomes visible when it is complete."""
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
        """Return the result of an action, retried after transient errors; return `missing` if nothing is there."""
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
                    # A single attempt is too few to conclude that the address no longer answers.
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
    """Return whether an error comes from the store.

    Libraries for file systems define their own error classes; a bug of this package raises a built-in one.
    """
    return isinstance(problem, OSError | NotImplementedError) or type(problem).__module__ != "builtins"


def _is_final(problem: Exception) -> bool:
    return isinstance(problem, PermissionError | NotImplementedError)
