"""The nearest neighbours of every sample, without a full distance matrix.

Up to `EXACT` samples the search is exhaustive (scikit-learn), O(N^2 d) time and O(N) memory. Above, it is an inverted
file index (faiss): k-means divides the space into cells of about `CELL` samples, and a sample is compared with all
samples of its `PROBES` nearest cells. The cost is O(N (PROBES * CELL + N / CELL) d) time and O(N k) memory beside the
features, which are read one cell at a time. The search misses neighbours outside the probed cells: few if features
cluster, as those of networks do, many if features fill the space evenly. The search is deterministic.

Not faiss's own `IndexIVF`: that index copies all features into memory, and ours may be on disk.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.selection.feature_rows import CHUNK, Features, Rows, unit_rows

Metric = Literal["euclidean", "cosine"]
Neighbours = tuple[NDArray[np.int64], NDArray[np.float64]]

EXACT = 50_000
CELL = 1024
PROBES = 8
LARGEST = 8 * CELL  # a larger cell (mostly duplicates of one sample) is subsampled evenly to this size
_ROUNDS = 10  # iterations of k-means; cells need not be optimal
_LEARNED_FROM = 64  # samples per cell that k-means is trained on


def nearest(features: Features, count: int, metric: Metric = "euclidean", exact: int = EXACT) -> Neighbours:
    """Find the nearest other samples of each sample.

    Args:
        features: One row per sample.
        count: Neighbours per sample; all other samples if there are fewer.
        metric: ``"euclidean"`` or ``"cosine"``.
        exact: Largest number of samples for which the search is exhaustive.

    Returns:
        Positions of the neighbours, nearest first, and their Euclidean distances (or cosines, for ``"cosine"``), both
        of
        shape ``[samples, count]``.

    Raises:
        PackageMissing: More than `exact` samples, and faiss is not installed.

    Example:
        >>> where, far = nearest(Features([[0.0], [1.0], [3.0]]), 1)
        >>> where.tolist(), far.tolist()
        ([[1], [0], [1]], [[1.0], [1.0], [2.0]])
    """
    count = min(count, len(features) - 1)
    if count < 1:
        return np.empty((len(features), 0), dtype=np.int64), np.empty((len(features), 0))
    where, squared = (_exhaustive if len(features) <= exact else _by_cells)(features, count + 1, metric)
    where, squared = _without_self(where, squared)
    return where, np.sqrt(squared) if metric == "euclidean" else 1 - squared / 2


def nearest_cells(features: Features) -> NDArray[np.int64]:
    """Return the number of the k-means cell of each sample, shape ``[samples]``; cells have about `CELL` samples.

    Raises:
        PackageMissing: faiss is not installed.
    """
    faiss = _import_faiss()
    centroids = _centroids(faiss, features, "euclidean")
    found = np.empty(len(features), dtype=np.int64)
    for start, rows in features.chunks():
        found[start : start + len(rows)] = faiss.knn(rows, centroids, 1)[1][:, 0]
    return found


def _scaled(rows: Rows, metric: Metric) -> Rows:
    """Return the rows unchanged, or for ``"cosine"`` scaled to norm 1: squared distances are then 2 - 2 cosine."""
    return rows if metric == "euclidean" else unit_rows(rows)


def _exhaustive(features: Features, count: int, metric: Metric) -> Neighbours:
    from sklearn.neighbors import NearestNeighbors

    points = _scaled(features.take(np.arange(len(features))), metric)
    distances, where = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(points).kneighbors(points)
    return where.astype(np.int64), np.square(distances.astype(np.float64))


def _by_cells(features: Features, count: int, metric: Metric) -> Neighbours:
    faiss = _import_faiss()
    total = len(features)
    centroids = _centroids(faiss, features, metric)
    probes = min(PROBES, len(centroids))
    cells = np.empty((total, probes), dtype=np.int32)
    for start, rows in features.chunks():
        cells[start : start + len(rows)] = faiss.knn(_scaled(rows, metric), centroids, probes)[1]
    where = np.full((total, count), -1, dtype=np.int64)
    squared = np.full((total, count), np.inf, dtype=np.float32)
    order = np.argsort(cells, axis=None, kind="stable")  # all (sample, probe) pairs, sorted by cell
    ends = np.cumsum(np.bincount(cells.ravel(), minlength=len(centroids)))
    for cell, end in enumerate(ends):
        visits = order[ends[cell - 1] if cell else 0 : end]
        visitors = visits // probes
        inside = visitors[visits % probes == 0]
        if not len(inside):
            continue
        inside = inside[:: -(-len(inside) // LARGEST)]
        points = _scaled(features.take(inside), metric)
        for start in range(0, len(visitors), CHUNK):
            asking = visitors[start : start + CHUNK]
            found, at = faiss.knn(_scaled(features.take(asking), metric), points, min(count, len(inside)))
            _merge(where, squared, asking, inside[at], found)
    _complete(faiss, features, metric, where, squared)
    return where, np.maximum(squared, 0).astype(np.float64)


def _centroids(faiss: Any, features: Features, metric: Metric) -> Rows:
    count = max(1, len(features) // CELL)
    sample = np.unique(np.linspace(0, len(features) - 1, min(len(features), count * _LEARNED_FROM)).astype(np.int64))
    clustering = faiss.Kmeans(
        features.dimension,
        count,
        niter=_ROUNDS,
        seed=1,
        min_points_per_centroid=1,
        max_points_per_centroid=_LEARNED_FROM,
    )
    clustering.train(_scaled(features.take(sample), metric))
    centroids: Rows = clustering.centroids
    return centroids


def _complete(
    faiss: Any, features: Features, metric: Metric, where: NDArray[np.int64], squared: NDArray[np.float32]
) -> None:
    """Search exhaustively for the samples whose probed cells hold too few neighbours."""
    short = np.flatnonzero(where[:, -1] < 0)
    if not len(short):
        return
    asking = _scaled(features.take(short), metric)
    squared[short] = np.inf
    for start, rows in features.chunks():
        found, at = faiss.knn(asking, _scaled(rows, metric), min(where.shape[1], len(rows)))
        _merge(where, squared, short, at + start, found)


def _merge(
    where: NDArray[np.int64],
    squared: NDArray[np.float32],
    asking: NDArray[np.int64],
    at: NDArray[np.int64],
    found: NDArray[np.float32],
) -> None:
    """Merge newly found neighbours into the known ones in place, and keep the nearest."""
    both = np.concatenate([squared[asking], found], axis=1)
    best = np.argsort(both, axis=1, kind="stable")[:, : where.shape[1]]
    squared[asking] = np.take_along_axis(both, best, axis=1)
    where[asking] = np.take_along_axis(np.concatenate([where[asking], at], axis=1), best, axis=1)


def _without_self(where: NDArray[np.int64], values: NDArray[np.float64]) -> Neighbours:
    """Remove each sample from its own list, or the last entry if duplicates pushed the sample out of its list."""
    own = where == np.arange(len(where))[:, None]
    out = np.where(own.any(axis=1), np.argmax(own, axis=1), where.shape[1] - 1)
    stays = np.arange(where.shape[1]) != out[:, None]
    shape = (len(where), where.shape[1] - 1)
    return where[stays].reshape(shape), values[stays].reshape(shape)


def _import_faiss() -> Any:
    try:
        import faiss
    except ImportError as problem:
        what = f"a search for neighbours among more than {EXACT} samples"
        raise errors.package_missing("faiss", "neighbours", what) from problem
    return faiss
