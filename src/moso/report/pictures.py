"""The samples a person wants to see: the highest, the lowest and the most negative, as pictures or as texts."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from moso.errors import MosoError
from moso.run.originals import Originals
from moso.run.reading import Run

SHOWN = 12
# Larger pictures are scaled down to this; twice what the page shows, for sharp screens.
LARGEST = 160
# Longer texts are cut.
LONGEST_TEXT = 400
# Pictures up to this size are enlarged without smoothing: their pixels are all there is to see.
TINY = 48
# The score whose sign means something, and what it means below zero in each of its forms.
SIGNED = "moso"
_BELOW_ZERO = {
    "paper": "a step on their own gradient raises the loss of the others",
    "centred": "a step on their own gradient helps the others less than the mean gradient does",
}


@dataclass(frozen=True)
class Shown:
    """One sample on the page."""

    id: str
    label: str
    score: float
    drawn: bool = False
    source_label: str | None = None
    picture: str | None = None
    tiny: bool = False
    text: str | None = None

    @property
    def name(self) -> str:
        """What the page calls it: a path says itself what it is, a number does not."""
        return f"id {self.id}" if self.id.isdigit() else self.id


@dataclass(frozen=True)
class Strip:
    """A row of samples with a title."""

    title: str
    explanation: str
    samples: Sequence[Shown]


class Album:
    """Looks up what is shown of a sample; without `originals` there are neither pictures nor texts."""

    def __init__(self, run: Run, originals: Originals | None) -> None:
        table, described = run.table(), run.manifest["dataset"]
        self.ids = table["id"]
        self.labels = table["label"]
        self.classes: list[str] = described["classes"]
        self.drawn = set(described["labels_drawn_at_random"])
        self.relabelled = run.configuration.labels is not None
        self.below_zero = _BELOW_ZERO[run.configuration.form]
        self.originals = originals

    def shown(self, position: int, score: float) -> Shown:
        """One sample, by its position in the data set."""
        sample_id: int | str = self.ids[position].as_py()
        label, drawn = self.label(position), sample_id in self.drawn
        if self.originals is None:
            return Shown(str(sample_id), label, score, drawn)
        source_label = self.originals.class_name(sample_id) if self.classes else label
        if source_label != label and not drawn and not self.relabelled:
            raise MosoError(f"sample {sample_id} is now of class {source_label}, and was {label} when the run was made")
        picture = self.originals.picture(sample_id)
        return Shown(
            str(sample_id),
            label,
            score,
            drawn,
            None if source_label == label else source_label,
            None if picture is None else data_uri(picture),
            picture is not None and max(picture.size) <= TINY,
            _shortened(self.originals.text(sample_id)),
        )

    def label(self, position: int) -> str:
        """The name of a sample's class, or the numbers to predict."""
        answer = self.labels[position].as_py()
        if self.classes:
            return self.classes[int(answer)]
        numbers = answer if isinstance(answer, list) else [] if answer is None else [answer]
        return ", ".join(f"{number:.4g}" for number in numbers)

    def strip(self, title: str, explanation: str, scores: NDArray[np.float64], order: NDArray[np.int64]) -> Strip:
        """The first few positions of an order."""
        return Strip(title, explanation, [self.shown(int(one), float(scores[one])) for one in order[:SHOWN]])


def strips(album: Album, scores: dict[str, NDArray[np.float64]], main: str) -> list[Strip]:
    """The highest and lowest of the main score, and the most negative where the sign means something."""
    values = scores[main]
    ascending = np.argsort(values, kind="stable")
    found = [album.strip(f"Highest {main}", "kept first", values, ascending[::-1])]
    if main != SIGNED:
        found.append(album.strip(f"Lowest {main}", "removed first", values, ascending))
    else:
        nearest = np.argsort(np.abs(values), kind="stable")
        found.append(album.strip(f"{main} nearest to zero", "training hardly notices them", values, nearest))
    signed = scores.get(SIGNED)
    if signed is not None:
        order = np.argsort(signed, kind="stable")
        order = order[signed[order] < 0]
        if len(order):
            found.append(album.strip(f"Most negative {SIGNED}", album.below_zero, signed, order))
        elif main == SIGNED:
            found.append(album.strip(f"Lowest {main}", "removed first; none is below zero", values, ascending))
    return found


def _shortened(text: str | None) -> str | None:
    """A text, or the beginning of a long one.

    >>> _shortened("Who was Galileo ?"), len(_shortened("x" * 1000))
    ('Who was Galileo ?', 400)
    """
    if text is None or len(text) <= LONGEST_TEXT:
        return text
    return text[: LONGEST_TEXT - 1] + "…"


def data_uri(picture: Image.Image) -> str:
    """A picture inside the page: PNG to the pixel where it is small, a JPEG thumbnail where it is not.

    >>> data_uri(Image.new("L", (8, 8)))[:22]
    'data:image/png;base64,'
    """
    if max(picture.size) <= LARGEST // 2:
        return png_uri(_encoded(picture, "PNG", optimize=True))
    small = picture.convert("RGB")
    small.thumbnail((LARGEST, LARGEST))
    return f"data:image/jpeg;base64,{base64.b64encode(_encoded(small, 'JPEG', quality=85)).decode()}"


def png_uri(content: bytes) -> str:
    """The bytes of a PNG as an address that needs no network."""
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def _encoded(picture: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()
