"""Flags that several verbs share.

A verb takes a group of flags as one parameter whose type is a subclass of `Flags`; `with_flags` replaces this parameter
by one flag per field, for the command line.
"""

import inspect
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Annotated, Any

import typer

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="run directory, or an address such as s3://bucket/run", show_default=False)
]
Quiet = Annotated[bool, typer.Option("--quiet", help="no progress, no table")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="say what would be done and how long it will take")]


class Flags:
    """A group of flags: by default a dataclass, each field annotated with its `typer.Option`."""

    @classmethod
    def flags(cls) -> list[inspect.Parameter]:
        """Return the flags as parameters of a command."""
        return [flag(one.name, one.type, one.default) for one in fields(cls)]  # type: ignore[arg-type]


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
