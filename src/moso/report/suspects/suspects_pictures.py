"""Pictures of suspects: one sheet of pictures, and the pictures and texts of the page."""

import base64
import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PIL import Image

from moso.analysis.label_issues import LabelIssues
from moso.errors import MosoError
from moso.report.plots import LIGHT, Theme, blank, house_style
from moso.results.originals import Originals
from moso.results.reading import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACROSS = 10
# In inches: side of a tile, height of the names above it, and margin.
TILE, TITLE, GAP = 1.05, 0.36, 0.05
# Largest number of pictures on the sheet, so that it can be viewed as a whole.
ON_SHEET = 100
# Larger pictures are scaled down to this size, twice the size on the page; longer texts are cut.
LARGEST = 192
LONGEST_TEXT = 400
_NAME = 16
# Pictures up to this size are enlarged without smoothing, which would blur their few pixels.
TINY = 48


@dataclass(frozen=True)
class Look:
    """The preview of one suspect: a picture, a text, or neither."""

    picture: Image.Image | None = None
    text: str | None = None

    @property
    def is_tiny(self) -> bool:
        """Whether the picture is so small that smoothing would blur it."""
        return self.picture is not None and max(self.picture.size) <= TINY

    @property
    def address(self) -> str | None:
        """The picture as a data URL, which needs no network; None without a picture."""
        if self.picture is None:
            return None
        small = self.picture if self.picture.mode in ("L", "RGB", "RGBA") else self.picture.convert("RGB")
        if max(small.size) > LARGEST:
            small = small.copy()
            small.thumbnail((LARGEST, LARGEST))
        stream = io.BytesIO()
        small.save(stream, "PNG", optimize=True)
        return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"


def looks(run: Run, ids: Sequence[Any]) -> tuple[list[Look], str]:
    """Return the preview of every suspect by id, and if there are none, a sentence on why."""
    try:
        source = Originals.open(run.configuration)
        found = [Look(source.picture(one), _shortened(source.text(one))) for one in ids]
    except (MosoError, OSError) as problem:
        return [Look()] * len(ids), f"The samples cannot be shown: {problem}."
    if not any(look.picture or look.text for look in found):
        return found, "The inputs are neither pictures nor texts, so samples are named by id and label."
    return found, ""


def _shortened(text: str | None) -> str | None:
    return text if text is None or len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def label_titles(issues: LabelIssues) -> list[str]:
    """Return two lines per suspect: its label, with a mark where the truth is known, and the predicted label."""
    found, titles = issues.suspects, []
    for place in range(len(found)):
        label, other = (_cut(issues.classes[int(one[place])]) for one in (found.labels, found.predicted))
        mark = "" if found.wrong is None else (" ✗" if found.wrong[place] else " ✓")
        titles.append(f"{label}{mark}\n→ {other}")
    return titles


def text_titles(texts: Sequence[str]) -> list[str]:
    """Return two lines per pair: the beginning of its text.

    Example:
        >>> text_titles(["a cat", "one small dog in the middle of the frame"])
        ['a cat', 'one small dog in\\nthe middle of t…']
    """
    return ["\n".join(_cut(line) for line in _two_lines(text)) for text in texts]


def sheet(titles: Sequence[str], seen: Sequence[Look], *, theme: Theme = LIGHT) -> "Figure | None":
    """Draw the first suspects as pictures, a title of two lines above each; None if there are no pictures."""
    shown = [place for place, look in enumerate(seen) if look.picture is not None][:ON_SHEET]
    if not shown:
        return None
    across = min(ACROSS, len(shown))
    down = -(-len(shown) // across)
    with house_style(theme):
        figure = blank(TILE * across, (TILE + TITLE) * down)
        # One axes object for all pictures: a hundred small axes take many times as long to lay out.
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        for number, place in enumerate(shown):
            row, column = divmod(number, across)
            _tile(axes, titles[place], seen[place].picture, column, row)
        axes.set_xlim(0, TILE * across)
        axes.set_ylim((TILE + TITLE) * down, 0)
        axes.set_aspect("auto")
    return figure


def _tile(axes: "Axes", title: str, picture: Image.Image | None, column: int, row: int) -> None:
    assert picture is not None
    left, top = TILE * column + GAP, (TILE + TITLE) * row + TITLE
    side = TILE - 2 * GAP
    width, height = (side * size / max(picture.size) for size in picture.size)
    edge = left + (side - width) / 2, top + (side - height) / 2
    colours = "RGB" if picture.mode not in ("L", "1", "I;16") else "L"
    extent = (edge[0], edge[0] + width, edge[1] + height, edge[1])
    axes.imshow(picture.convert(colours), cmap="gray", vmin=0, vmax=255, interpolation="nearest", extent=extent)
    # Texts of the data may hold dollar signs, which are not formulas.
    axes.text(left + side / 2, top - GAP, title, ha="center", va="bottom", fontsize=7.5, linespacing=1.1,
              parse_math=False)  # fmt: skip


def _two_lines(text: str) -> list[str]:
    lines = textwrap.wrap(text, _NAME)
    return [lines[0], " ".join(lines[1:])] if len(lines) > 1 else lines


def _cut(name: str) -> str:
    return name if len(name) <= _NAME else name[: _NAME - 1] + "…"
