"""Provenance of a result: the commit of the code that produced it."""

import subprocess
import time
from functools import lru_cache
from pathlib import Path

from moso.version import __version__


@lru_cache(maxsize=1)
def commit() -> str:
    """Return the commit of this package's checkout, with `+` if its code has changes; otherwise the package's version.

    Changes outside the package, such as growing result tables, do not count.

    Example:
        >>> bool(commit())
        True
    """
    package = Path(__file__).resolve().parents[1]
    top = _git(package, "rev-parse", "--show-toplevel")
    if top is None or Path(top) / "src" / "moso" != package:
        return f"moso {__version__}"
    found = _git(package, "rev-parse", "--short", "HEAD")
    changed = _git(package, "status", "--porcelain", "--", ".")
    return f"moso {__version__}" if found is None else f"{found}+" if changed else found


def stamp() -> dict[str, str]:
    """Return the last fields of every row of a table: the commit, and the time."""
    return {"commit": commit(), "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return None  # git is not installed
    return done.stdout.strip() if done.returncode == 0 else None
