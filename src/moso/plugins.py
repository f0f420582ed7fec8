"""What other packages add: entry points of a group, loaded when one is asked for and never before.

A package declares, for example, in its `pyproject.toml`

    [project.entry-points."moso.selectors"]
    nearest-first = "their_package.selection:nearest_first"

where the object has the name it is declared under. Nobody can take the place of ours, or of each other.
"""

from collections.abc import Collection
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from moso.errors import MosoError

Kind = TypeVar("Kind")


def names(group: str) -> list[str]:
    """The names that installed packages declare in a group.

    >>> names("moso.nothing-of-this-kind")
    []
    """
    return sorted(point.name for point in _declared(group))


def everything(group: str, kind: type[Kind], ours: Collection[str]) -> dict[str, Kind]:
    """All that installed packages declare in a group, loaded and checked, by name."""
    found = {}
    for name in names(group):
        one = find(group, name, kind, ours)
        if one is not None:
            found[name] = one
    return found


def find(group: str, name: str, kind: type[Kind], ours: Collection[str]) -> Kind | None:
    """What an installed package declares under this name, or None; `ours` are the names that are taken."""
    points = [point for point in _declared(group) if point.name == name]
    if not points:
        return None
    if name in ours:
        raise MosoError(f"{_origin(points[0])} declares {name!r} in {group}, a name of moso's own; it needs another")
    if len(points) > 1:
        others = " and ".join(_origin(point) for point in points)
        raise MosoError(f"{others} both declare {name!r} in {group}; uninstall one of them")
    loaded = _load(points[0])
    if not isinstance(loaded, kind):
        raise MosoError(f"{name!r} of {_origin(points[0])} is a {type(loaded).__name__}, not a {kind.__name__}")
    own = getattr(loaded, "name", name)
    if own != name:
        raise MosoError(f"{_origin(points[0])} declares {name!r} in {group}, but the object calls itself {own!r}")
    return loaded


def _declared(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda point: (point.name, point.value))


@cache
def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as problem:
        raise MosoError(f"{point.name!r} of {_origin(point)} cannot be loaded: {problem}") from problem


def _origin(point: EntryPoint) -> str:
    return f"package {point.dist.name!r}" if point.dist is not None else f"{point.value!r}"
