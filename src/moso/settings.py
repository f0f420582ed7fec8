"""Settings of scores and selectors: small frozen dataclasses, every field with a default, a sentence and its limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from moso.errors import MosoError


@dataclass(frozen=True)
class Settings:
    """What a score or a selector can be told; a subclass for each, its fields made by `setting`."""

    def needs(self) -> frozenset[str]:
        """The evidence that these very settings ask for, beyond what is always needed."""
        return frozenset()


Kind = TypeVar("Kind", bound=Settings)


def setting(
    default: Any,
    text: str,
    *,
    least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """A field of settings: its default, what it means, and which values make sense."""
    limits = [
        f"{word} {limit:g}"
        for word, limit in (("at least", least), ("above", above), ("below", below))
        if limit is not None
    ]
    allowed = f"one of {', '.join(choices)}" if choices else " and ".join(limits)
    return field(
        default=default,
        metadata={"text": text, "least": least, "above": above, "below": below, "choices": choices, "allowed": allowed},
    )


@dataclass(frozen=True)
class Option:
    """One setting as a listing or a command line shows it."""

    name: str
    default: Any
    text: str
    allowed: str


def options(kind: type[Settings]) -> list[Option]:
    """Every setting there is, in the order of the source.

    >>> @dataclass(frozen=True)
    ... class Window(Settings):
    ...     window: int = setting(10, "epochs of a window", least=2)
    >>> [(option.name, option.default, option.allowed) for option in options(Window)]
    [('window', 10, 'at least 2')]
    """
    return [Option(one.name, one.default, one.metadata["text"], one.metadata["allowed"]) for one in fields(kind)]


def resolve(owner: str, kind: type[Kind], given: Mapping[str, Any]) -> Kind:
    """The settings a user's values lead to; text is read as the number it spells, `owner` is named in errors.

    >>> @dataclass(frozen=True)
    ... class Window(Settings):
    ...     window: int = setting(10, "epochs of a window", least=2)
    >>> resolve("score 'dyn-unc'", Window, {"window": "5"}).window
    5
    >>> resolve("score 'dyn-unc'", Window, {"window": 1})
    Traceback (most recent call last):
    ...
    moso.errors.MosoError: score 'dyn-unc': window = 1 must be a whole number at least 2
    """
    known = {one.name: one for one in fields(kind)}
    values = {}
    for name, value in given.items():
        if name not in known:
            raise MosoError(f"{owner} has no setting {name!r}; it has: {', '.join(known) or 'none'}")
        meta, default = known[name].metadata, known[name].default
        read = _read(value, type(default))
        if read is None or not _allowed(read, meta):
            form = {int: "a whole number", float: "a number", str: "", bool: "true or false"}[type(default)]
            expected = " ".join(part for part in (form, meta["allowed"]) if part)
            raise MosoError(f"{owner}: {name} = {value!r} must be {expected}")
        values[name] = read
    return kind(**values)


def _read(value: Any, wanted: type) -> Any:
    if wanted is bool:
        return {"true": True, "false": False}.get(str(value).lower())
    if isinstance(value, bool) or (wanted is str and not isinstance(value, str)):
        return None
    try:
        number = wanted(value)
    except (TypeError, ValueError):
        return None
    return number if wanted is str or isinstance(value, str) or number == value else None


def _allowed(value: Any, meta: Mapping[str, Any]) -> bool:
    if meta["choices"]:
        return value in meta["choices"]
    if isinstance(value, bool):
        return True
    return bool(
        (meta["least"] is None or value >= meta["least"])
        and (meta["above"] is None or value > meta["above"])
        and (meta["below"] is None or value < meta["below"])
        and value == value  # NaN passes no comparison and must not pass for want of one
    )
