"""What a person can look at of a sample: its picture, its text or its numbers, as the source has them."""

from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from PIL import Image

from moso import errors
from moso.errors import MosoError
from moso.results.originals import Originals
from moso.results.reading import Run

Kind = Literal["pictures", "texts", "rows", "none"]
# Longer texts are cut.
LONGEST_TEXT = 600
# Numbers of a row that are shown.
WIDEST_ROW = 64


class SamplePreview:
    """The samples of a run by position; without `originals` there is nothing to look at, and `note` says why.

    `places: [samples]` is where the source has them.
    """

    def __init__(self, originals: Originals | None, places: NDArray[np.int64], note: str = "") -> None:
        self.samples = None if originals is None else originals.samples
        self.places = places
        self.note = note
        self.problems: list[str] = []

    @classmethod
    def open(cls, run: Run) -> "SamplePreview":
        """The samples of a run, found again where they came from."""
        try:
            originals = Originals.open(run.configuration)
            return cls(originals, _found_again(run, originals))
        except (MosoError, OSError) as problem:
            return cls(None, np.empty(0, dtype=np.int64), f"The samples cannot be shown: {problem}.")

    @cached_property
    def kind(self) -> Kind:
        """What samples are."""
        if self.samples is None:
            return "none"
        if self.samples.text(int(self.places[0])) is not None:
            return "texts"
        return "pictures" if self.picture(0) is not None or self.problems else "rows"

    def picture(self, position: int) -> Image.Image | None:
        """A sample's picture; None where it has none, or where it can no longer be read."""
        if self.samples is None:
            return None
        try:
            return self.samples.picture(int(self.places[position]))
        except (MosoError, OSError) as problem:
            self.problems.append(str(problem))
            return None

    def text(self, position: int) -> str:
        """A sample's text, or the beginning of a long one."""
        return shortened("" if self.samples is None else self.samples.text(int(self.places[position])) or "")

    @property
    def width(self) -> int:
        """How many numbers of a row are shown."""
        return 0 if self.samples is None else min(WIDEST_ROW, int(np.prod(self.samples.shape)))

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """The first numbers of some samples, `[positions, width]`, in the source's units."""
        assert self.samples is not None
        read = self.samples.reader.read(self.places[positions])
        return np.asarray(read.reshape(len(positions), -1)[:, : self.width], dtype=np.float32)

    def source_labels(self) -> NDArray[np.int64] | None:
        """The class index that the source gives every sample; None where it cannot be asked or has no classes."""
        if self.samples is None or not self.samples.classes:
            return None
        return np.asarray(self.samples.labels[self.places])


def _found_again(run: Run, originals: Originals) -> NDArray[np.int64]:
    """Where the source has every sample; refused where one is gone, or of another class than when the run was made."""
    table, described = run.table(), run.manifest["dataset"]
    ids, source = table["id"].combine_chunks(), originals.samples
    found = pc.index_in(ids, source.ids.cast(ids.type))
    if found.null_count:
        originals.position(ids[pc.index(pc.is_null(found), True).as_py()].as_py())  # which says what is missing
    places: NDArray[np.int64] = found.to_numpy(zero_copy_only=False).astype(np.int64)
    classes = described["classes"]
    if not classes or run.configuration.labels is not None:
        return places
    names = np.array(source.classes, dtype=object)[source.labels[places]]
    expected = np.array(classes, dtype=object)[table["label"].to_numpy()]
    drawn = set(described["labels_drawn_at_random"])
    for position in np.flatnonzero(names != expected).tolist():
        name = ids[position].as_py()
        if name not in drawn:
            raise errors.DataChanged(
                f"sample {name} is now of class {names[position]}, and was {expected[position]} when the run was made"
            )
    return places


def shortened(text: str) -> str:
    """A text, or the beginning of a long one.

    >>> shortened("Who was Galileo ?"), len(shortened("x" * 1000))
    ('Who was Galileo ?', 600)
    """
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
