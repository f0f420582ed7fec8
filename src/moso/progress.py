"""How work says how far it is: a callable that anybody may implement, and one that says nothing."""

from typing import Protocol


class Progress(Protocol):
    """Told of every bit of work done; `label` names the work, `total` is how much there is of it."""

    def __call__(self, label: str, done: float, total: float) -> None:
        """`done` of `total` units of the work called `label` are finished."""


def silent(label: str, done: float, total: float) -> None:
    """No progress is shown."""
