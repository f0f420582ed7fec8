"""Where a result comes from: the commit of the code that made it."""

import subprocess
import time
from functools import lru_cache
from pathlib import Path

from moso.version import __version__


@lru_cache(maxsize=1)
def commit() -> str:
    """The commit of the checkout this package lies in, `+` behind it where code differs; else the package's version.

    Tables that grow in the same checkout are no change of the code.

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
    """What every line of a table ends with: which code made it, and when."""
    return {"commit": commit(), "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return None  # no git here
    return done.stdout.strip() if done.returncode == 0 else None
