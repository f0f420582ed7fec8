"""What can go wrong through no fault of ours, said in one sentence.

Every `MosoError` is written for the person who caused it: what was found, what was expected, what to
do. The command line prints it without a traceback and exits with 2.
"""

import difflib
from collections.abc import Iterable


class MosoError(Exception):
    """The user's or the surroundings' fault; the message is one clear sentence.

    >>> raise MosoError("ratio 1.2 is outside [0, 1)")
    Traceback (most recent call last):
    ...
    moso.errors.MosoError: ratio 1.2 is outside [0, 1)
    """


def unknown_name(kind: str, name: str, known: Iterable[str]) -> MosoError:
    """An error for a name that is not registered, with the nearest ones that are.

    >>> str(unknown_name("selector", "balnced", ["top", "balanced"]))
    "unknown selector 'balnced'; nearest: balanced (known: balanced, top)"
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"nearest: {', '.join(near)} " if near else ""
    return MosoError(f"unknown {kind} {name!r}; {hint}(known: {', '.join(names)})")
