"""Previews of samples for people: picture, text or numbers, as in the source."""

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
    """The samples of a run by position, as the source has them.

    Args:
        originals: The source; None if it cannot be opened.
        places: Position of each sample in the source, shape ``[samples]``.
        note: Why there is nothing to show, if there is nothing.
    """

    def __init__(self, originals: Originals | None, places: NDArray[np.int64], note: str = "") -> None:
        self.samples = None if originals is None else originals.samples
        self.places = places
        self.note = note
        # Each once, in order: a server may be asked for the same broken picture for days.
        self.problems: dict[str, None] = {}

    @classmethod
    def open(cls, run: Run) -> "SamplePreview":
        """Find the samples of a run in their source; on failure, return an empty preview whose note says why."""
        try:
            originals = Originals.open(run.configuration)
            return cls(originals, _found_again(run, originals))
        except (MosoError, OSError) as problem:
            return cls(None, np.empty(0, dtype=np.int64), f"The samples cannot be shown: {problem}.")

    @cached_property
    def kind(self) -> Kind:
        """The kind of preview."""
        if self.samples is None:
            return "none"
        first = self._preview(0)
        if isinstance(first, str):
            return "texts"
        return "pictures" if first is not None or self.problems else "rows"

    def _preview(self, position: int) -> Image.Image | str | None:
        """Return the task's preview of a sample; None if it has no picture or text, or cannot be read any more."""
        if self.samples is None:
            return None
        try:
            return self.samples.task.preview(self.samples, int(self.places[position]))
        except (MosoError, OSError) as problem:
            self.problems[str(problem)] = None
            return None

    def picture(self, position: int) -> Image.Image | None:
        """Return a sample's picture; None if it has none, or if it cannot be read any more."""
        found = self._preview(position)
        return None if isinstance(found, str) else found

    def text(self, position: int) -> str:
        """Return a sample's text, cut if it is long."""
        found = self._preview(position)
        return shortened(found) if isinstance(found, str) else ""

    @property
    def width(self) -> int:
        """Number of values per row that are shown."""
        return 0 if self.samples is None else min(WIDEST_ROW, int(np.prod(self.samples.shape)))

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the first values of some samples in the source's units, shape ``[positions, width]``."""
        assert self.samples is not None
        read = self.samples.reader.read(self.places[positions])
        return np.asarray(read.reshape(len(positions), -1)[:, : self.width], dtype=np.float32)

    def source_labels(self) -> NDArray[np.int64] | None:
        """Return the source's class index of every sample; None if the source is not available or has no classes."""
        if self.samples is None or not self.samples.task.by_class:
            return None
        return np.asarray(self.samples.labels[self.places])


def _found_again(run: Run, originals: Originals) -> NDArray[np.int64]:
    """Return the position of every sample in the source.

    Raises:
        DataChanged: A sample is missing, or has another class than when the run was made.
    """
    table, task = run.table(), run.task
    ids, source = table["id"].combine_chunks(), originals.samples
    found = pc.index_in(ids, source.ids.cast(ids.type))
    if found.null_count:
        originals.position(ids[pc.index(pc.is_null(found), True).as_py()].as_py())  # raises an error that names it
    places: NDArray[np.int64] = found.to_numpy(zero_copy_only=False).astype(np.int64)
    if not task.by_class or run.configuration.labels is not None:
        return places
    names = np.array(source.classes, dtype=object)[source.labels[places]]
    expected = np.array(task.classes, dtype=object)[table["label"].to_numpy()]
    drawn = set(run.manifest["dataset"]["labels_drawn_at_random"])
    for position in np.flatnonzero(names != expected).tolist():
        name = ids[position].as_py()
        if name not in drawn:
            raise errors.DataChanged(
                f"sample {name} is now of class {names[position]}, and was {expected[position]} when the run was made"
            )
    return places


def shortened(text: str) -> str:
    """Return a text, cut to `LONGEST_TEXT` characters if it is longer.

    Example:
        >>> shortened("Who was Galileo ?"), len(shortened("x" * 1000))
        ('Who was Galileo ?', 600)
    """
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
