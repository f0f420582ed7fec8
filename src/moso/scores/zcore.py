"""`zcore`: how often a sample is the nearest to a random point of the embedding, less what it repeats of others.

Believes that samples which alone cover a part of the embedding are needed, and that samples beside one that covers it
are not; neither labels nor training are needed. Many times, two coordinates (a, b) of the embedding are drawn, and a
point p in their plane, each number from the triangular distribution between the coordinate's lowest and highest value
with its median as the mode. With L1 distances in the plane:

    c = the sample nearest to p                                        score(c) += 1
    the `neighbours` samples z nearest to c, at distances d_z          score(z) -= d_z^-exponent / sum_y d_y^-exponent

If the nearest of them is at distance 0, it alone loses 1. All scores start at uniform numbers in [0, 1) by (seed, id),
so that samples which were never met are in a random order. The source scales scores to [0, 1] at the end, which changes
no order, and is left out here.

Samples at exactly the same distance are common in features with many zeros; the source takes the first of them, so
that the first samples of the data collect all the points. Here one is drawn by (seed, draw, id). All samples at the
distance of the last neighbour count, so that the result does not depend on the order of the data.

The source computes all distances for every draw: O(draws N log N). Here the samples are sorted by coordinate a, once
for all draws of that coordinate, and only samples in a window around p are looked at; the window is widened until no
sample outside can be nearer. That gives the same neighbours in O(sqrt(N neighbours)) per draw if samples fill the
plane, and in more where points fall into sparse tails. Memory: one float32 copy of the embedding, by columns, in a
file that the system pages.

Scale: differences of points; 0 to 1 for what is never met. Keep: high. Hard: neither end.
Source: Griffin, Marks & Corso, Zero-Shot Coreset Selection: Efficient Pruning for Unlabeled Data, 2024 (arXiv
2411.15349), and the authors' code: 1 million draws in 2 dimensions, 1,000 neighbours, exponent 4. By default there are
20 draws per sample (the source's number on 50,000 samples) and at most 1 million.
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso import errors
from moso.columns import Array, empty_column
from moso.evidence_kinds.label_free_embedding import EMBEDDING
from moso.randomness import generator, hashes, uniforms
from moso.scores.score import Score, ScoreInput
from moso.scores.ssp import check_rows
from moso.settings import Settings

PER_SAMPLE, MOST = 20, 1_000_000
_CHUNK = 16_384
Columns = NDArray[np.float32]
Positions = NDArray[np.int64]


class ZcoreSettings(Settings):
    """Settings of `zcore`: how many points are drawn, and what neighbours lose."""

    draws: int = Field(0, ge=0, description="random points; 0 = 20 per sample, at most 1 million")
    neighbours: int = Field(1000, ge=1, description="samples nearest to one that covers a point, which lose 1 together")
    exponent: float = Field(4.0, ge=0, description="how much more the nearest of them lose")
    start: Literal["random", "zero"] = Field("random", description="score before the first draw: in [0, 1), or 0")


def zcore_scores(
    features: Array, keys: NDArray[np.uint64], seed: int = 0, settings: ZcoreSettings | None = None
) -> NDArray[np.float64]:
    """Compute the coverage minus the redundancy of every sample.

    Args:
        features: One row per sample, shape ``[samples, dimension]``; may be a memory map.
        keys: One 64-bit key per sample, shape ``[samples]``.
        seed: Seed of the draws.
        settings: Number of draws, neighbours and exponent.

    Returns:
        Scores, shape ``[samples]``; high means keep.

    Raises:
        ShapeMismatch: `features` is not a numeric matrix.
        ValuesNotFinite: A feature is NaN or infinite.

    Example:
        >>> features = np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.1], [9.0, 9.0]])
        >>> scores = zcore_scores(features, np.arange(4, dtype=np.uint64), settings=ZcoreSettings(start="zero"))
        >>> abs(round(float(scores.sum()), 9))  # what one sample gains, its neighbours lose
        0.0
    """
    settings = settings or ZcoreSettings()
    check_rows(features)
    count, dimension = features.shape
    if dimension == 0:
        raise errors.ShapeMismatch("score 'zcore' needs at least one feature per sample")
    order = np.argsort(keys, kind="stable")
    columns = _by_columns(features, order)
    draws = settings.draws or min(PER_SAMPLE * count, MOST)
    pairs, points = draw_points(_limits(columns), draws, seed)
    found = np.zeros(count)
    by_first = np.argsort(pairs[:, 0], kind="stable")
    for first, some in zip(*_grouped(pairs[by_first, 0], by_first), strict=True):
        plane = _Planes(columns, int(first), keys[order], seed, settings)
        for draw in some:
            plane.look(found, int(draw), int(pairs[draw, 1]), points[draw])
    scores = np.empty(count)
    scores[order] = found
    return scores + uniforms(keys, seed, "zcore", "start") if settings.start == "random" else scores


def draw_points(limits: NDArray[np.float64], draws: int, seed: int) -> tuple[Positions, NDArray[np.float64]]:
    """Return the pairs of coordinates and the points in their planes, both of shape ``[draws, 2]``.

    Args:
        limits: Lowest value, median and highest value of each coordinate, shape ``[3, dimension]``.
        draws: Number of points.
        seed: Seed of the draws.

    Example:
        >>> pairs, points = draw_points(np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]]), 4, seed=0)
        >>> bool((pairs[:, 0] != pairs[:, 1]).all()), bool(((points >= 0) & (points <= 5)).all())
        (True, True)
    """
    dimension, draw = limits.shape[1], generator(seed, "zcore", "points")
    first = draw.integers(dimension, size=draws)
    second = (first + 1 + draw.integers(max(1, dimension - 1), size=draws)) % dimension
    pairs = np.stack([first, second], axis=1)
    uniform = draw.uniform(size=(draws, 2))
    low, mode, high = (one[pairs] for one in limits)
    below = uniform * (high - low) < mode - low
    rising = low + np.sqrt(uniform * (high - low) * (mode - low))
    falling = high - np.sqrt((1 - uniform) * (high - low) * (high - mode))
    return pairs, np.where(below, rising, falling)


class _Planes:
    """The planes of one coordinate with all others; samples are sorted by that coordinate."""

    def __init__(
        self, columns: Columns, first: int, keys: NDArray[np.uint64], seed: int, settings: ZcoreSettings
    ) -> None:
        self._columns, self._keys, self._seed, self._settings = columns, keys, seed, settings
        # Samples come in the order of their keys, which breaks ties of a stable sort.
        self._order = np.argsort(columns[first], kind="stable")
        self._values = columns[first][self._order].astype(np.float64)
        self._others = min(settings.neighbours, len(keys) - 1)

    def look(self, scores: NDArray[np.float64], draw: int, second: int, point: NDArray[np.float64]) -> None:
        """Change the scores by what one random point says."""
        column = self._columns[second]
        near, distances = self._nearest(column, float(point[0]), float(point[1]), 1)
        covering = self._one_of(near[distances == distances.min()], draw, "cover")
        scores[self._order[covering]] += 1
        if not self._others:
            return
        here = self._values[covering], float(column[self._order[covering]])
        near, distances = self._nearest(column, *here, self._others + 1)
        apart = near != covering
        near, distances = near[apart], distances[apart]
        lowest = distances.min()
        if lowest == 0:
            scores[self._order[self._one_of(near[distances == 0], draw, "copy")]] -= 1
            return
        weights = (lowest / distances) ** self._settings.exponent
        scores[self._order[near]] -= weights / weights.sum()

    def _nearest(self, column: Columns, x: float, y: float, count: int) -> tuple[Positions, NDArray[np.float64]]:
        """Return the `count` nearest places of the sorted order, with all that tie with the last, and distances."""
        total, centre = len(self._values), int(np.searchsorted(self._values, x))
        half = 8 + 2 * math.isqrt(total * count)
        while True:
            start, end = max(0, centre - half), min(total, centre + half)
            distances = np.abs(self._values[start:end] - x) + np.abs(column[self._order[start:end]] - y)
            # Everything outside is at least this far away.
            left = x - self._values[start - 1] if start else math.inf
            beyond = min(left, self._values[end] - x if end < total else math.inf)
            if end - start >= count:
                last = distances.min() if count == 1 else np.partition(distances, count - 1)[count - 1]
                if last < beyond:
                    near = np.flatnonzero(distances <= last)
                    return near + start, distances[near]
            half *= 2

    def _one_of(self, tied: Positions, draw: int, purpose: str) -> int:
        if len(tied) == 1:
            return int(tied[0])
        drawn = hashes(self._keys[self._order[tied]], self._seed, "zcore", purpose, draw)
        return int(tied[np.argmin(drawn)])


def _by_columns(features: Array, order: Positions) -> Columns:
    """Return the embedding with one row per coordinate, samples in this order, shape ``[dimension, samples]``."""
    count, dimension = features.shape
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    columns = empty_column((dimension, count), np.float32)
    for start in range(0, count, _CHUNK):
        columns[:, place[start : start + _CHUNK]] = np.asarray(features[start : start + _CHUNK], dtype=np.float32).T
    return columns


def _limits(columns: Columns) -> NDArray[np.float64]:
    return np.array([[one.min(), np.median(one), one.max()] for one in columns], dtype=np.float64).T


def _grouped(sorted_values: Positions, items: Positions) -> tuple[Positions, list[Positions]]:
    """Return the distinct values of a sorted column, and the items of each."""
    values, starts = np.unique(sorted_values, return_index=True)
    return values, np.split(items, starts[1:])


def _compute(given: ScoreInput, settings: ZcoreSettings) -> NDArray[np.float64]:
    return zcore_scores(given.read(EMBEDDING), given.keys, given.seed, settings)


ZCORE = Score(
    "zcore",
    "what alone covers a part of the embedding is needed, what lies beside it repeats it",
    _compute,
    frozenset({"embedding"}),
    scale="points for covering, less points for repeating",
    formula="sum over random planes: [nearest to a random point] - share of d^-4 among the nearest to another",
    source="Griffin, Marks & Corso, ZCore, 2024",
    settings=ZcoreSettings,
)
