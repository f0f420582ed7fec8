"""What a person can look at of a sample: its picture, its text or its numbers, as the source has them."""

from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from moso.errors import MosoError
from moso.run.originals import Originals
from moso.run.reading import Run

Kind = Literal["pictures", "texts", "rows", "none"]
# Longer texts are cut.
LONGEST_TEXT = 600
# Numbers of a row that are shown.
WIDEST_ROW = 64


class Shown:
    """The samples of a run by position; without `originals` there is nothing to look at, and `note` says why."""

    def __init__(self, originals: Originals | None, ids: list[Any], note: str = "") -> None:
        self.originals = originals
        self.ids = ids
        self.note = note
        self.problems: list[str] = []

    @classmethod
    def open(cls, run: Run) -> "Shown":
        """The samples of a run, found again where they came from."""
        ids = run.table()["id"].to_pylist()
        try:
            originals = Originals.open(run.configuration)
            _check_unchanged(run, originals)
        except (MosoError, OSError) as problem:
            return cls(None, ids, f"The samples cannot be shown: {problem}.")
        return cls(originals, ids)

    @cached_property
    def kind(self) -> Kind:
        """What samples are."""
        if self.originals is None or not self.ids:
            return "none"
        first = self.ids[0]
        if self.originals.samples.text(self.originals.position(first)) is not None:
            return "texts"
        return "pictures" if self.picture(0) is not None or self.problems else "rows"

    def picture(self, position: int) -> Image.Image | None:
        """A sample's picture; None where it has none, or where it can no longer be read."""
        if self.originals is None:
            return None
        try:
            return self.originals.picture(self.ids[position])
        except (MosoError, OSError) as problem:
            self.problems.append(str(problem))
            return None

    def text(self, position: int) -> str:
        """A sample's text, or the beginning of a long one."""
        found = "" if self.originals is None else self.originals.text(self.ids[position]) or ""
        return shortened(found)

    @property
    def width(self) -> int:
        """How many numbers of a row are shown."""
        return 0 if self.originals is None else min(WIDEST_ROW, int(np.prod(self.originals.samples.shape)))

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """The first numbers of some samples, `[positions, width]`, in the source's units."""
        assert self.originals is not None
        places = np.array([self.originals.position(self.ids[one]) for one in positions.tolist()], dtype=np.int64)
        read = self.originals.samples.reader.read(places)
        return np.asarray(read.reshape(len(places), -1)[:, : self.width], dtype=np.float32)

    def source_labels(self) -> NDArray[np.int64] | None:
        """The class index that the source gives every sample; None where it cannot be asked or has no classes."""
        if self.originals is None or not self.originals.samples.classes:
            return None
        places = [self.originals.position(one) for one in self.ids]
        return np.asarray(self.originals.samples.labels[places])


def _check_unchanged(run: Run, originals: Originals) -> None:
    """Refuse a source whose samples are gone or of other classes than they were when the run was made."""
    table, described = run.table(), run.manifest["dataset"]
    ids = table["id"].to_pylist()
    drawn, classes = set(described["labels_drawn_at_random"]), described["classes"]
    places = [originals.position(one) for one in ids]
    if not classes or run.configuration.labels is not None:
        return
    names = np.array(originals.samples.classes, dtype=object)[originals.samples.labels[places]]
    expected = np.array(classes, dtype=object)[table["label"].to_numpy()]
    for position in np.flatnonzero(names != expected).tolist():
        if ids[position] not in drawn:
            raise MosoError(
                f"sample {ids[position]} is now of class {names[position]}, and was {expected[position]} when the "
                "run was made"
            )


def shortened(text: str) -> str:
    """A text, or the beginning of a long one.

    >>> shortened("Who was Galileo ?"), len(shortened("x" * 1000))
    ('Who was Galileo ?', 600)
    """
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
