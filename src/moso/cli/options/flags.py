"""Flags that several verbs share.

A verb takes a group of flags as one parameter whose type is a subclass of `Flags`; `with_flags` replaces this parameter
by one flag per field, for the command line.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from moso.cli.options.panels import OUTPUT, SELECTION


def local_path(text: str | Path) -> Path:
    """Parse a flag's value as a path of this machine.

    Raises:
        OutputInvalid: The value is an address such as `s3://bucket/run`, which would become a folder of that name.
    """
    from moso import errors
    from moso.storage.store import is_address

    if is_address(text):
        raise errors.OutputInvalid(f"{text} is an address, and this is written on this machine alone; give a path")
    return Path(text)


def option(*names: str, panel: str, help: str, **more: Any) -> Any:  # noqa: A002 - as Typer calls it
    """Return a `typer.Option` under a heading; a default is shown unless the help names it in brackets."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **{"show_default": "[default" not in help, **more})


def local_option(*names: str, help: str) -> Any:  # noqa: A002 - as Typer calls it
    """Return an option whose value is a path of this machine to write to."""
    return option(*names, panel=OUTPUT, help=help, parser=local_path, metavar="PATH")


RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="run directory, or an address such as s3://bucket/run", show_default=False)
]
Quiet = Annotated[bool, option("--quiet", panel=OUTPUT, help="print no progress and no tables")]
Json = Annotated[bool, option("--json", panel=OUTPUT, help="print JSON, for programs")]
DryRun = Annotated[
    bool, option("--dry-run", panel=OUTPUT, help="say what would be done, with its time, memory and disk, and stop")
]
Seed = Annotated[int | None, option("--seed", panel=SELECTION, help="seed [default: the run's first]")]
Decisions = Annotated[
    Path | None,
    option("--overrides", panel=SELECTION, help="manual decisions, as the page saves them: a .csv with id, decision"),
]

Keeps = Annotated[
    list[str] | None,
    option(
        "--keep",
        panel=SELECTION,
        help="what to keep instead: 0.6, 60% or 3000 samples; may be repeated",
    ),
]


class Flags:
    """A group of flags: by default a dataclass, each field annotated with its `typer.Option`."""

    @classmethod
    def flags(cls) -> list[inspect.Parameter]:
        """Return the flags as parameters of a command."""
        empty = inspect.Parameter.empty
        return [
            flag(one.name, one.type, empty if one.default is MISSING else one.default)
            for one in fields(cls)  # type: ignore[arg-type]
        ]


def flag(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """Return a keyword-only parameter of a command."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with every group of flags expanded in its signature."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[type[Flags], list[str]]] = {}
    for one in inspect.signature(command, eval_str=True).parameters.values():
        if isinstance(one.annotation, type) and issubclass(one.annotation, Flags):
            own = one.annotation.flags()
            groups[one.name] = (one.annotation, [each.name for each in own])
            parameters += own
        else:
            parameters.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def run(**values: Any) -> None:
        given = {name: kind(**{own: values.pop(own) for own in names}) for name, (kind, names) in groups.items()}
        command(**values, **given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run
