"""Sheets of pictures: within their limit, to the pixel where pixels matter, the important ones first."""

import io

import numpy as np
import pytest
from PIL import Image

from moso.report.page.thumbnails import NO_TILE, by_importance, make_album


class Made:
    """Pictures made up: one noisy picture a position, some of them missing."""

    def __init__(self, size: tuple[int, int], missing: tuple[int, ...] = ()) -> None:
        self.size, self.missing = size, missing

    def picture(self, position: int) -> Image.Image | None:
        if position in self.missing:
            return None
        width, height = self.size
        pixels = np.random.default_rng(position).integers(0, 255, (height, width, 3)).astype(np.uint8)
        return Image.fromarray(pixels)


@pytest.mark.parametrize("limit", [3_000, 30_000, 10_000_000])
def test_sheets_stay_below_the_limit_and_the_first_come_first(limit):
    order = np.random.default_rng(0).permutation(400)
    album = make_album(Made((8, 8)), order, limit)
    assert sum(map(len, album.sheets)) <= limit
    there = album.tiles[order] != NO_TILE
    assert (np.diff(there.astype(int)) <= 0).all()  # nobody before somebody more important
    assert album.count == there.sum()
    assert limit < 100_000 or there.all()


def test_small_pictures_are_kept_to_the_pixel_and_large_ones_in_shape():
    album = make_album(Made((10, 6), missing=(3,)), np.arange(20), 10**6)
    assert album.kind == "image/png"
    assert album.tiles[3] == NO_TILE
    assert album.sizes[5].tolist() == [10, 6]
    sheet, place = divmod(int(album.tiles[5]), album.across**2)
    with Image.open(io.BytesIO(album.sheets[sheet])) as picture:
        x, y = place % album.across * album.pixels, place // album.across * album.pixels
        tile = np.asarray(picture.crop((x, y, x + 10, y + 6)))
    assert (tile == np.asarray(Made((10, 6)).picture(5))).all()
    large = make_album(Made((300, 150)), np.arange(20), 10**6)
    assert (large.kind, large.pixels) == ("image/jpeg", 128)
    assert large.sizes[0].tolist() == [128, 64]


def test_less_room_makes_smaller_tiles_before_it_leaves_pictures_out():
    pixels = [make_album(Made((300, 300)), np.arange(60), limit).pixels for limit in (10**7, 400_000, 100_000)]
    assert pixels[0] == 128
    assert pixels == sorted(pixels, reverse=True)
    assert pixels[-1] < 128


def test_importance_is_doubt_then_both_ends_then_every_class_in_turn(monkeypatch):
    monkeypatch.setattr("moso.report.page.thumbnails._ENDS", 5)
    draw = np.random.default_rng(0)
    scores, labels = draw.normal(size=300), np.repeat([0, 1, 2], [240, 50, 10])
    doubted = draw.random(300) < 0.05
    order = by_importance(scores, labels, np.arange(300, dtype=np.uint64), doubted)
    assert sorted(order.tolist()) == list(range(300))
    count = int(doubted.sum())
    assert doubted[order[:count]].all()
    ranks = np.argsort(np.argsort(scores))
    ends = order[count : count + 8]
    assert all(rank < 5 or rank >= 295 for rank in ranks[ends])
    rest = labels[order[count + 10 : count + 28]]
    assert (np.bincount(rest, minlength=3) >= 4).all()
