"""Refusals of the package: tests check an error's code and the values that its sentence names, not the sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from moso.errors import MosoError


@contextmanager
def refusal(code: str, *values: object) -> Iterator[pytest.ExceptionInfo[MosoError]]:
    """Expect a `MosoError` with this code whose sentence names these values: names, numbers, files, flags."""
    with pytest.raises(MosoError) as caught:
        yield caught
    assert caught.value.code == code, f"{caught.value.code}: {caught.value}"
    unnamed = [value for value in values if not names(str(caught.value), value)]
    assert not unnamed, f"{unnamed} not in: {caught.value}"


def names(sentence: str, value: object) -> bool:
    """Whether a sentence has a value in it as a word of its own: 3 is not in "step 13"."""
    return re.search(rf"(?<![\w.]){re.escape(str(value))}(?!\w)", sentence) is not None
