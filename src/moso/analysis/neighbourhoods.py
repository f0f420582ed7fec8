"""Near-duplicates and outliers of a data set, from the nearest neighbours of every sample in feature space.

**Near-duplicates.** Let d(z) be the distance of a sample to its nearest neighbour, and m the median of d over all
samples. Two neighbours are near-duplicates if their distance is at most `DUPLICATE` * m (0.13, the factor of cleanlab's
Datalab). Near-duplicates form groups: the connected components of these pairs.

**Outliers.** Let a(z) be the mean distance to the `NEIGHBOURS` nearest neighbours. A sample is an outlier if log a(z)
is above the upper fence of a box plot, Q3 + 1.5 (Q3 - Q1) of log a over all samples. The logarithm, because distances
are skewed to the right: without it, several per cent of any data would be outliers.

Both rules are relative to the data: they need no unit, and they hold for any features.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from moso.errors import PackageMissing
from moso.selection.feature_rows import CHUNK, Features
from moso.selection.neighbours import EXACT, nearest

NEIGHBOURS = 10
DUPLICATE = 0.13
FENCE = 1.5
# Samples up to which the search is exhaustive; above, faiss searches the nearest cells if it is installed.
EXHAUSTIVE = 10_000


@dataclass(frozen=True)
class Neighbourhoods:
    """What the neighbours of every sample say; every column has shape ``[samples]``.

    Attributes:
        nearest: Position of the nearest neighbour.
        distance: Distance to the nearest neighbour.
        mean_distance: Mean distance to the `NEIGHBOURS` nearest neighbours.
        group: Number of the group of near-duplicates, from 1, that of the closest pair first; 0 for samples without
            near-duplicates.
        outlier: Whether the sample is an outlier.
        duplicate_within: Largest distance between near-duplicates.
        outlier_beyond: Mean distance above which a sample is an outlier.
        exhaustive: Whether all samples were compared with all others.
    """

    nearest: NDArray[np.int64]
    distance: NDArray[np.float64]
    mean_distance: NDArray[np.float64]
    group: NDArray[np.int64]
    outlier: NDArray[np.bool_]
    duplicate_within: float
    outlier_beyond: float
    exhaustive: bool

    @property
    def groups(self) -> int:
        """Number of groups of near-duplicates."""
        return int(self.group.max(initial=0))


def neighbourhoods(features: Features, exhaustive: int = EXHAUSTIVE) -> Neighbourhoods:
    """Find near-duplicates and outliers.

    Args:
        features: One row per sample, all finite; at least two samples.
        exhaustive: Largest number of samples of which all pairs are compared. Above, neighbours come from the nearest
            cells of an index (`selection.neighbours`), which needs faiss; without faiss all pairs of up to `EXACT`
            samples are compared.

    Raises:
        PackageMissing: More than `EXACT` samples, and faiss is not installed.

    Example:
        >>> rows = np.array([[0.0, 0], [0, 0.01], [1, 0], [0, 1], [2, 2], [1, 3], [3, 1]])
        >>> found = neighbourhoods(Features(rows))
        >>> found.group.tolist(), found.nearest[:2].tolist()
        ([1, 1, 0, 0, 0, 0, 0], [1, 0])
    """
    try:
        where, compared_all = nearest(features, NEIGHBOURS, exact=exhaustive)[0], len(features) <= exhaustive
    except PackageMissing:
        if len(features) > EXACT:
            raise
        where, compared_all = nearest(features, NEIGHBOURS)[0], True
    distances = _distances(features, where)
    # The search works in float32 or by dot products; exact distances may change the order of close neighbours.
    order = np.argsort(distances, axis=1, kind="stable")
    where, distances = np.take_along_axis(where, order, axis=1), np.take_along_axis(distances, order, axis=1)
    within = DUPLICATE * float(np.median(distances[:, 0]))
    mean = distances.mean(axis=1)
    beyond = _fence(mean)
    return Neighbourhoods(
        where[:, 0],
        distances[:, 0],
        mean,
        _groups(where, distances, within),
        mean > beyond,
        within,
        beyond,
        compared_all,
    )


def matches_across(train: Features, test: Features, within: float) -> NDArray[np.int64]:
    """Return the nearest training sample of every test sample that has a near-duplicate in the training data.

    Args:
        train: Features of the training samples.
        test: Features of the test samples, in the same space.
        within: Largest distance of near-duplicates (`Neighbourhoods.duplicate_within`).

    Returns:
        Positions in the training data, -1 where no training sample is that near, shape ``[test samples]``.

    Example:
        >>> train, test = Features(np.array([[0.0], [5.0]])), Features(np.array([[5.01], [2.0]]))
        >>> matches_across(train, test, within=0.1).tolist()
        [1, -1]
    """
    from sklearn.neighbors import NearestNeighbors

    rows, asked = train.take(np.arange(len(train))), test.take(np.arange(len(test)))
    near = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(rows).kneighbors(asked, return_distance=False)[:, 0]
    distance = np.linalg.norm(asked.astype(np.float64) - rows[near].astype(np.float64), axis=1)
    return np.where(distance <= within, near, -1).astype(np.int64)


def _distances(features: Features, where: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the distances of every sample to some others in float64, shape of `where`."""
    found = np.empty(where.shape)
    block = max(1, CHUNK // max(1, where.shape[1]))
    for start in range(0, len(where), block):
        near = where[start : start + block]
        own = features.take(np.arange(start, start + len(near))).astype(np.float64)
        others = features.take(near.ravel()).astype(np.float64).reshape(*near.shape, -1)
        found[start : start + len(near)] = np.linalg.norm(others - own[:, None], axis=2)
    return found


def _fence(mean: NDArray[np.float64]) -> float:
    """Return the mean distance above which a sample is an outlier."""
    positive = mean[mean > 0]
    if not len(positive):
        return float("inf")
    low, high = np.quantile(np.log(np.maximum(mean, positive.min())), [0.25, 0.75])
    return float(np.exp(high + FENCE * (high - low)))


def _groups(where: NDArray[np.int64], distances: NDArray[np.float64], within: float) -> NDArray[np.int64]:
    """Number the connected components of near-duplicate pairs, that of the closest pair first; 0 for no pair."""
    rows, columns = np.nonzero(distances <= within)
    if not len(rows):
        return np.zeros(len(where), dtype=np.int64)
    pairs = coo_array((np.ones(len(rows), dtype=np.int8), (rows, where[rows, columns])), shape=(len(where),) * 2)
    component = connected_components(pairs, directed=False)[1]
    closest = np.full(component.max() + 1, np.inf)
    np.minimum.at(closest, component[rows], distances[rows, columns])
    first = np.unique(component, return_index=True)[1]
    number = np.zeros(len(closest), dtype=np.int64)
    paired = np.flatnonzero(np.isfinite(closest))
    number[paired[np.lexsort((first[paired], closest[paired]))]] = np.arange(1, len(paired) + 1)
    return np.asarray(number[component])
