"""Packing of a page into a limited size. Histories are left out first, then further scores, then pictures."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from moso.analysis.wording import count_of
from moso.report.page.content import Content
from moso.report.page.page_columns import Block, Column, smallest
from moso.report.page.thumbnails import NO_TILE, make_album

# The largest share of the page for per-sample curves, which are packed before pictures.
_HISTORIES = 0.3
# What the page needs to show accuracies per class.
_CLASS_COLUMNS = {"class-accuracy", "class-harmed", "class-tests"}
# Base64 writes three bytes as four.
_GROWTH = 4 / 3
# Bytes of a block beside its text: its HTML element, and its entry in the JSON part.
_OVERHEAD = 200


@dataclass
class Packed:
    """The blocks of a page by name, and the JSON part that describes them.

    Attributes:
        room: Bytes that are left.
        about: Entries of the JSON part.
        blocks: Names and blocks.
        columns: Descriptions of the packed columns by name.
        left_out: Sentences about what did not fit.
    """

    room: int
    about: dict[str, Any] = field(default_factory=dict)
    blocks: list[tuple[str, Block]] = field(default_factory=list)
    columns: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def add(self, name: str, column: Column, room: float | None = None) -> bool:
        """Pack a column if it fits into `room` bytes; return whether it does."""
        room = self.room if room is None else min(room, self.room)
        if column.size * 0.5 > room:  # too large even with good compression
            return False
        block = Block.of(column.content())
        if len(block.text) + _OVERHEAD > room:
            return False
        self._take(name, block)
        self.columns[name] = column.described
        return True

    def add_sheet(self, number: int, content: bytes) -> None:
        """Pack a sheet of pictures, without further compression."""
        self._take(f"sheet/{number}", Block.of(content, compress=False))

    def _take(self, name: str, block: Block) -> None:
        self.blocks.append((name, block))
        self.room -= len(block.text) + _OVERHEAD


def pack(content: Content, room: int) -> Packed:
    """Pack as much of a run as fits into `room` bytes of text, most important parts first."""
    packed, limit = Packed(room), room
    scores = [f"score/{name}" for name in content.about["scores"]]
    first = [name for name in ("id", "by-id", "label", "answer", "answers", "partition") if name in content.columns]
    needed = [*first, *scores[:1]]
    if not all(packed.add(name, content.columns[name]) for name in needed):
        note = (
            f"This run has {count_of(content.samples, 'sample')}, too many for a file of this size: "
            "moso explore RUN shows them, or moso report RUN with a larger --max-mb."
        )
        return Packed(room, {"samples": 0, "columns": {}, "left_out": [note]})
    histories = [name for name in content.columns if name == "steps" or name.startswith(("dynamics/", "features"))]
    others = [name for name in content.columns if name not in (*needed, *histories)]
    left_out = [name for name in others if not packed.add(name, content.columns[name])]
    before = packed.room
    for name in histories:
        if not packed.add(name, content.columns[name], _HISTORIES * limit - (before - packed.room)):
            left_out.append(name)
    if left_out:
        packed.left_out.append(f"Left out for the size of this file: {', '.join(_named(left_out))}.")
    shown = _add_shown(packed, content)
    dropped = {name.removeprefix("score/") for name in left_out if name.startswith("score/")}
    packed.about = {
        "columns": packed.columns,
        "left_out": packed.left_out,
        "shown": {**content.about["shown"], **shown},
        "scores": [name for name in content.about["scores"] if name not in dropped],
        "selections": [one for one in content.about["selections"] if one["column"] in packed.columns],
        "methods": [
            {**one, "score": None if one["score"] in dropped else one["score"]} for one in content.about["methods"]
        ],
        "orders": [name for name in content.about["orders"] if f"order/{name}" in packed.columns],
        "class_accuracy": content.about["class_accuracy"] if packed.columns.keys() >= _CLASS_COLUMNS else [],
    }
    return packed


def _named(columns: Iterable[str]) -> list[str]:
    words = {"steps": "scores at each time step", "features": "neighbours", "map": "the map"}
    words |= {"duplicate-group": "near-duplicates", "outlier": "outliers", "copied-to-test": "copies in the test data"}
    return list(dict.fromkeys(words.get(name, name.replace("/", " ")) for name in columns))


def _add_shown(packed: Packed, content: Content) -> dict[str, Any]:
    """Pack pictures, texts or rows of numbers, of as many samples as fit; return what the page must know about them."""
    shown = content.shown
    if shown is None or shown.kind == "none":
        return {}
    order, count = content.importance, content.samples
    if shown.kind == "rows":
        width = min(shown.width, int(packed.room / _GROWTH / 4 / count))
        values = shown.rows(np.arange(count))[:, :width].T if width else None
        if values is None or not packed.add("row", Column("float32", count, lambda: values, width)):
            return {"note": "Their numbers are left out for the size of this file."}
        return {"width": width}
    if shown.kind == "texts":
        return _add_texts(packed, content)
    album = make_album(shown, order, int((packed.room - 10 * count) / _GROWTH))
    kinds = smallest(album.pixels + 1)
    tiles = Column("uint32", count, lambda: album.tiles)
    if not album.sheets or not packed.add("tile", tiles):
        return {"note": "Pictures are left out for the size of this file."}
    if (album.sizes[album.tiles != NO_TILE] != album.pixels).any():
        packed.add("tile-size", Column(kinds, count, lambda: album.sizes.T, 2))
    for number, sheet in enumerate(album.sheets):
        packed.add_sheet(number, sheet)
    note = _share("Pictures", album.count, count)
    if shown.problems:
        problem = f"{count_of(len(shown.problems), 'picture')} cannot be read, the first: {next(iter(shown.problems))}."
        note = f"{note} {problem}".strip()
    return {"pixels": album.pixels, "across": album.across, "type": album.kind, "note": note}


def _add_texts(packed: Packed, content: Content) -> dict[str, Any]:
    assert content.shown is not None
    texts, room, taken = [""] * content.samples, packed.room / _GROWTH - 4 * content.samples, 0
    for position in content.importance.tolist():
        text = content.shown.text(position)
        room -= len(text.encode("utf-8", "replace"))
        if room < 0:
            break
        texts[position] = text
        taken += 1
    packed.add("text", Column("texts", content.samples, lambda: texts))
    return {"note": _share("Texts", taken, content.samples)}


def _share(what: str, there: int, count: int) -> str:
    if there == count:
        return ""
    return (
        f"{what} of {there:,} of {count:,} samples are in this file, for its size: those in doubt (labels, "
        "near-duplicates, outliers), both ends of the score, and a draw from every class. moso explore RUN shows all."
    )
