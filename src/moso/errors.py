"""What can go wrong through no fault of ours, said in one sentence.

Every `MosoError` is written for the person who caused it: what was found, what was expected, what to
do. The command line prints it without a traceback and exits with 2. Its `code` says which kind of fault it is;
`docs/errors.md` lists the codes. Programs and tests look at the code: a sentence may be worded better one day.
"""

import difflib
from collections.abc import Iterable

# The code of an error whose `raise` names none.
UNCLASSIFIED = "unclassified"


class MosoError(Exception):
    """The user's or the surroundings' fault.

    Args:
        message: One clear sentence.
        code: The kind of fault, in kebab-case; stable from version to version.

    Example:
        >>> raise MosoError("ratio 1.2 is outside [0, 1)", code="ratio-out-of-range")
        Traceback (most recent call last):
        ...
        moso.errors.MosoError: ratio 1.2 is outside [0, 1)
    """

    def __init__(self, message: str = "", *, code: str = UNCLASSIFIED) -> None:
        super().__init__(message)
        self.code = code


class SampleError(MosoError):
    """Something that one sample brought about; `index` counts the samples that were given, from 0.

    Whoever knows the sample's name says it with `of`.

    >>> str(SampleError("the gradient of {sample} is not finite", 5).of("sample 105 at step 3"))
    'the gradient of sample 105 at step 3 is not finite'
    """

    def __init__(self, template: str, index: int, *, code: str = UNCLASSIFIED) -> None:
        super().__init__(template.replace("{sample}", f"sample {index}"), code=code)
        self.template, self.index = template, index

    def of(self, sample: str) -> MosoError:
        """The same error with the sample's name, and with the same cause."""
        error = MosoError(self.template.replace("{sample}", sample), code=self.code)
        error.__cause__ = self.__cause__
        return error


def unknown_name(kind: str, name: str, known: Iterable[str]) -> MosoError:
    """An error (`unknown-name`) for a name that is not registered, with the nearest ones that are.

    >>> str(unknown_name("selector", "balnced", ["top", "balanced"]))
    "unknown selector 'balnced'; nearest: balanced (known: balanced, top)"
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"nearest: {', '.join(near)} " if near else ""
    return MosoError(f"unknown {kind} {name!r}; {hint}(known: {', '.join(names)})", code="unknown-name")
