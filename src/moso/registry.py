"""One registry class for everything with a name: scores, selectors, methods, data sources, networks, recipes.

A registry has the entries of this package, and those that installed packages declare as entry points of its group:

    [project.entry-points."moso.selectors"]
    nearest-first = "their_package.selection:nearest_first"

where the attribute `name` of the object, if any, equals the declared name. An entry of another package is imported on
the first request, and cannot replace a built-in entry or one of a third package. `docs/plugins.md` shows each group.
"""

from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from moso import errors
from moso.errors import MosoError, unknown_name

T = TypeVar("T")


class Registry(Generic[T]):
    """Entries of one kind by name.

    Args:
        what: What an entry is called in errors, such as `selector`.
        kind: The class of an entry.
        group: The group of entry points in which other packages declare entries.
        built_in: The entries of this package, in the order in which they are listed.

    Example:
        >>> words = Registry("word", str, "moso.no-such-group")
        >>> words.register("tea", name="tea"), words.get("tea")
        ('tea', 'tea')
        >>> words.get("te")
        Traceback (most recent call last):
        ...
        moso.errors.UnknownName: unknown word 'te'; nearest: tea (known: tea)
    """

    def __init__(self, what: str, kind: type[T], group: str, built_in: Iterable[T] = ()) -> None:
        self.what, self.kind, self.group = what, kind, group
        self._built_in: dict[str, Callable[[], T]] = {}
        for entry in built_in:
            self.register(entry)

    def register(self, entry: T, name: str | None = None) -> T:
        """Add an entry, under its attribute `name` unless another name is given.

        Returns:
            The entry itself, so that `register` also serves as a decorator.

        Raises:
            MosoError: ``name-taken``.
        """
        self.register_lazily(name if name is not None else _name_of(entry), lambda: entry)
        return entry

    def register_lazily(self, name: str, load: Callable[[], T]) -> None:
        """Add an entry that is built on first request, because building it reads files or imports large packages.

        Args:
            name: Name of the entry.
            load: Builds the entry; called at most once.

        Raises:
            MosoError: ``name-taken``.
        """
        if name in self._built_in:
            raise errors.NameTaken(f"there is a {self.what} {name!r} already; choose another name")
        self._built_in[name] = cache(load)

    def get(self, name: str) -> T:
        """Return the entry of this name.

        Raises:
            MosoError: ``unknown-name`` with the nearest names; ``plugin-broken``, ``name-taken``.
        """
        found = self.find(name)
        if found is None:
            raise self.unknown(name)
        return found

    def find(self, name: str) -> T | None:
        """Return the entry of this name, or None if there is none.

        Raises:
            MosoError: ``plugin-broken``, ``name-taken``.
        """
        if name in self._built_in:
            return self._built_in[name]()
        points = [point for point in self._points() if point.name == name]
        return self._loaded(points) if points else None

    def unknown(self, name: str, *other_forms: str) -> MosoError:
        """Return the error for an unknown name; the message also lists `other_forms` in which a name may be given."""
        return unknown_name(self.what, name, [*self.names(), *other_forms])

    def names(self) -> list[str]:
        """Return every name, the built-in ones first, without importing other packages."""
        theirs = (point.name for point in self._points())
        return [*self._built_in, *dict.fromkeys(name for name in theirs if name not in self._built_in)]

    def built_in(self) -> dict[str, T]:
        """Return the entries of this package by name."""
        return {name: load() for name, load in self._built_in.items()}

    def all(self) -> dict[str, T]:
        """Return all entries by name; imports the entries of other packages.

        Raises:
            MosoError: ``plugin-broken``, ``name-taken``.
        """
        found = self.built_in()
        by_name: dict[str, list[EntryPoint]] = {}
        for point in self._points():
            by_name.setdefault(point.name, []).append(point)
        return found | {name: self._loaded(points) for name, points in by_name.items()}

    def _points(self) -> list[EntryPoint]:
        return sorted(entry_points(group=self.group), key=lambda point: (point.name, point.value))

    def _loaded(self, points: list[EntryPoint]) -> T:
        """Load the entry of a name; refuse several entry points of that name and objects of another kind."""
        first, name = points[0], points[0].name
        if name in self._built_in:
            raise errors.NameTaken(
                f"{_origin(first)} declares {name!r} in {self.group}, a name of moso's own; it needs another",
            )
        if len(points) > 1:
            others = " and ".join(_origin(point) for point in points)
            raise errors.NameTaken(f"{others} both declare {name!r} in {self.group}; uninstall one of them")
        entry = _load(first)
        if not isinstance(entry, self.kind):
            raise errors.PluginBroken(
                f"{name!r} of {_origin(first)} is a {type(entry).__name__}, not a {self.kind.__name__}",
            )
        own = getattr(entry, "name", name)
        if own != name:
            raise errors.PluginBroken(
                f"{_origin(first)} declares {name!r} in {self.group}, but the object calls itself {own!r}",
            )
        return entry


def _name_of(entry: Any) -> str:
    name: str = entry.name
    return name


@cache
def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as problem:
        raise errors.PluginBroken(f"{point.name!r} of {_origin(point)} cannot be loaded: {problem}") from problem


def _origin(point: EntryPoint) -> str:
    return f"package {point.dist.name!r}" if point.dist is not None else f"{point.value!r}"
