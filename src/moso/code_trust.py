"""Whose code may run: code that a file names is imported only if somebody said so (`SECURITY.md`).

`package.module:factory` in a `run.toml` that came from elsewhere is somebody else's choice of what runs here. Names
that a file brought are noted when the file is read, and refused where code is imported, so that whatever needs no
network works on a stranger's run. A name is allowed once it was given on this command line or as an argument, by
`--trust`, by `trust=True`, or for everything by the environment variable `MOSO_TRUST=1`.
"""

import os
from collections.abc import Iterable

from moso import errors

VARIABLE = "MOSO_TRUST"
_strange: dict[str, str] = {}
_allowed: set[str] = set()


def is_code(name: str) -> bool:
    """Return whether the name of a network names code to import: `package.module:factory`.

    Example:
        >>> is_code("mine.networks:make"), is_code("timm:resnet18"), is_code("features:photos"), is_code("mlp-w8")
        (True, False, False, False)
    """
    return ":" in name and not name.startswith(("bert:", "gpt:", "hf:", "timm:", "features:"))


def note_names(names: Iterable[object], file: object) -> None:
    """Note what a file names, so that code among it is not imported unless it is allowed."""
    for name in names:
        if isinstance(name, str) and is_code(name):
            _strange[name] = str(file)


def allow_code(names: Iterable[object]) -> None:
    """Allow to import code by these names, from now on, in this process."""
    _allowed.update(name for name in names if isinstance(name, str))


def is_allowed(name: str) -> bool:
    """Return whether code of this name may be imported."""
    return name not in _strange or name in _allowed or os.environ.get(VARIABLE, "") not in ("", "0")


def check_allowed(name: str) -> None:
    """Refuse to import code that only a file names.

    Raises:
        CodeUntrusted: Nobody allowed it.
    """
    if not is_allowed(name):
        raise errors.CodeUntrusted(
            f"{_strange[name]} names code to run, {name!r}, and it was not run: a file may come from anybody; if you "
            f"trust it, give --trust (in Python trust=True), name {name!r} yourself (--model), or set {VARIABLE}=1"
        )
