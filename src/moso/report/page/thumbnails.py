"""Thumbnails of as many samples as fit into a number of bytes, in sheets.

A sheet is one image of square tiles, because thousands of small files inside a page would be mostly headers. If not all
samples fit, the order is: samples whose label is doubted, both ends of the score, then the others, one per class in
turn, in the order of a hash of their id.
"""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from moso.randomness import hashes
from moso.report.page.sample_preview import SamplePreview
from moso.selection.orders import rank_in_class

# Pictures up to this size are stored without loss: every pixel matters.
TINY = 16
# Pixels per tile and JPEG quality, best first: the first pair with which all pictures fit is used, or else the last.
_CHOICES = ((128, 85), (96, 80), (64, 80), (48, 80), (48, 70))
# Sheets are small, because a browser decodes a whole sheet to show one tile.
_SHEET_PIXELS = 256
_ACROSS = 12
# Number of tiles from which the size per tile is estimated.
_TRIAL = 96
# Samples from each end of the score that come first if not all fit.
_ENDS = 1_000
NO_TILE = 2**32 - 1


@dataclass(frozen=True)
class Album:
    """Sheets of tiles, and the tile of each sample.

    Attributes:
        pixels: Side of a tile.
        across: Tiles per row and column of a sheet.
        kind: Media type of the sheets.
        sheets: The encoded sheets.
        tiles: Number of each sample's tile, `NO_TILE` for none, shape ``[samples]``.
        sizes: Width and height of each sample's picture, shape ``[samples, 2]``.
    """

    pixels: int
    across: int
    kind: str
    sheets: list[bytes]
    tiles: NDArray[np.uint32]
    sizes: NDArray[np.uint8]

    @property
    def count(self) -> int:
        """Number of samples that have a tile."""
        return int((self.tiles != NO_TILE).sum())


def make_album(shown: SamplePreview, order: NDArray[np.int64], limit: int) -> Album:
    """Encode pictures in the given order until the sheets take `limit` bytes.

    Args:
        shown: The previews.
        order: All positions, most important first.
        limit: Bytes that the sheets may take.
    """
    trial = [picture for one in _spread(order) if (picture := shown.picture(int(one))) is not None]
    natural = max((max(picture.size) for picture in trial), default=1)
    pixels, quality = natural, None
    if natural > TINY:
        for wanted, quality in _CHOICES:
            pixels = min(wanted, natural)
            sheet = _encoded([_tile(picture, pixels) for picture in trial], pixels, len(trial), quality)
            if len(sheet) * len(order) <= limit * len(trial):
                break
    across = min(_ACROSS, max(1, _SHEET_PIXELS // pixels))
    tiles = np.full(len(order), NO_TILE, dtype=np.uint32)
    sizes = np.zeros((len(order), 2), dtype=np.uint8)
    sheets: list[bytes] = []
    for group in _groups(shown, order, across * across):
        small = [_tile(picture, pixels) for _, picture in group]
        sheet = _encoded(small, pixels, across, quality)
        if limit < len(sheet):
            break
        limit -= len(sheet)
        for number, (position, _) in enumerate(group):
            tiles[position] = len(sheets) * across * across + number
            sizes[position] = small[number].size
        sheets.append(sheet)
    return Album(pixels, across, "image/png" if quality is None else "image/jpeg", sheets, tiles, sizes)


def _spread(order: NDArray[np.int64]) -> NDArray[np.int64]:
    return order[np.linspace(0, len(order) - 1, min(_TRIAL, len(order))).astype(np.int64)]


def _groups(shown: SamplePreview, order: Iterable[int], size: int) -> Iterator[list[tuple[int, Image.Image]]]:
    group: list[tuple[int, Image.Image]] = []
    for position in order:
        picture = shown.picture(int(position))
        if picture is None:
            continue
        group.append((int(position), picture))
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _tile(picture: Image.Image, pixels: int) -> Image.Image:
    small = picture if picture.mode in ("L", "RGB") else picture.convert("RGB")
    if max(small.size) > pixels:
        small = small.copy()
        small.thumbnail((pixels, pixels))
    return small


def _encoded(tiles: list[Image.Image], pixels: int, across: int, quality: int | None) -> bytes:
    grey = all(tile.mode == "L" for tile in tiles)
    rows = -(-len(tiles) // across)
    sheet = Image.new("L" if grey else "RGB", (pixels * across, pixels * rows))
    for number, tile in enumerate(tiles):
        sheet.paste(tile, (number % across * pixels, number // across * pixels))
    stream = io.BytesIO()
    if quality is None:
        sheet.save(stream, "PNG", optimize=True)
    else:
        sheet.save(stream, "JPEG", quality=quality)
    return stream.getvalue()


def by_importance(
    scores: NDArray[np.float64],
    labels: NDArray[np.int64] | None,
    keys: NDArray[np.uint64],
    doubted: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """Return all positions, most interesting first: doubted labels, both ends of the score, then one per class in turn.

    Args:
        scores: One float per sample, shape ``[samples]``.
        labels: One class number per sample; None if there are no classes.
        keys: One 64-bit key per sample, which decides the order of the others.
        doubted: Whether each label is doubted, shape ``[samples]``.

    Example:
        >>> order = by_importance(np.arange(5.0), None, np.arange(5, dtype=np.uint64), np.arange(5) == 3)
        >>> order[0], sorted(order.tolist())
        (np.int64(3), [0, 1, 2, 3, 4])
    """
    ascending = np.argsort(scores, kind="stable")
    ends = np.stack([ascending[:_ENDS], ascending[::-1][:_ENDS]], axis=1).ravel()
    drawn = np.argsort(hashes(keys, "thumbnails"), kind="stable")
    if labels is not None:
        drawn = np.lexsort((labels, rank_in_class(drawn, labels)))
    first = ascending[:0] if doubted is None else ascending[doubted[ascending]]
    order, places = np.unique(np.concatenate([first, ends, drawn]), return_index=True)
    return np.asarray(order[np.argsort(places, kind="stable")])
