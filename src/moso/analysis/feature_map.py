"""The feature map: every sample as a point of a plane, near each other where their features are.

t-SNE (van der Maaten and Hinton, JMLR 2008) of at most `LANDMARKS` samples drawn by address, on 50 principal
components. Every other sample is placed among its nearest landmarks: at the mean, weighted by inverse squared distance,
of those that lie near the nearest one on the map, with a small random offset so that samples do not hide each other.
Landmarks elsewhere on the map have no weight, because a mean of two places is a third one, where neither belongs. So
the cost is that of one small t-SNE and one product with the landmarks, whatever the number of samples.

Distances between far groups, and their sizes, mean nothing in t-SNE; which samples lie together does.
"""

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso.analysis.principal_components import principal_components
from moso.randomness import generator
from moso.selection.feature_rows import Features

LANDMARKS = 2500
_COMPONENTS = 50
_PERPLEXITY = 30.0
_ITERATIONS = 500
# Landmarks among which another sample is placed, how far on the map they may lie from the nearest one, and the
# standard deviation of the offset; both in median distances of a landmark to the next.
_NEAREST = 5
_RADIUS = 4.0
_OFFSET = 0.5
# Fewer samples than this have no neighbourhoods to keep; they are drawn by their first two principal components.
_FEWEST = 8
_CHUNK = 4096


def feature_map(features: Features, landmarks: int = LANDMARKS) -> NDArray[np.float32]:
    """Place all samples in the unit square.

    Args:
        features: One row per sample, all finite.
        landmarks: Samples that t-SNE places; the others are placed among these.

    Returns:
        Coordinates in ``[0, 1]`` with the same scale in both directions, shape ``[samples, 2]``.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(60, 5)) + 20 * (np.arange(60) % 2)[:, None]
        >>> places = feature_map(Features(rows))
        >>> middles = np.stack([places[half::2].mean(axis=0) for half in (0, 1)])
        >>> nearest = np.linalg.norm(places[:, None] - middles, axis=2).argmin(axis=1)
        >>> bool((nearest == np.arange(60) % 2).all())
        True
    """
    components = principal_components(features, _COMPONENTS)
    total = len(components)
    if total < _FEWEST or not np.ptp(components, axis=0).any():
        return _in_unit_square(_padded(components[:, :2]))
    drawn = generator("feature map", total).choice(total, min(landmarks, total), replace=False)
    drawn.sort()
    anchors = components[drawn]
    places = _tsne(anchors)
    found = np.empty((total, 2), dtype=np.float32)
    found[drawn] = places
    others = np.setdiff1d(np.arange(total), drawn, assume_unique=True)
    if len(others):
        spacing = _spacing(places)
        for start in range(0, len(others), _CHUNK):
            block = others[start : start + _CHUNK]
            found[block] = _among(components[block], anchors, places, _RADIUS * spacing)
        offset = generator("feature map offsets", total).normal(scale=_OFFSET * spacing, size=(len(others), 2))
        found[others] += offset.astype(np.float32)
    return _in_unit_square(found)


def _spacing(places: NDArray[np.float32]) -> float:
    """Return the median distance of a landmark to the next on the map."""
    from scipy.spatial import cKDTree

    return float(np.median(cKDTree(places).query(places, k=2)[0][:, 1]))


def _tsne(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    start = _padded(rows[:, :2])
    start *= np.float32(1e-4 / (start[:, 0].std() or 1.0))  # t-SNE begins with small distances
    settings: dict[str, Any] = {"init": start, "random_state": 0, "perplexity": min(_PERPLEXITY, (len(rows) - 1) / 3)}
    # scikit-learn 1.5 renamed the setting.
    name = "max_iter" if "max_iter" in inspect.signature(TSNE).parameters else "n_iter"
    # One thread: sums over several threads are added in another order each time, and the page's bytes would differ.
    with threadpool_limits(1):
        return np.asarray(TSNE(**settings, **{name: _ITERATIONS}).fit_transform(rows), dtype=np.float32)


def _among(
    rows: NDArray[np.float32], anchors: NDArray[np.float32], places: NDArray[np.float32], radius: float
) -> NDArray[np.float32]:
    squared = np.square(rows).sum(axis=1)[:, None] - 2 * rows @ anchors.T + np.square(anchors).sum(axis=1)
    count = min(_NEAREST, len(anchors))
    near = np.argpartition(squared, count - 1, axis=1)[:, :count]
    distance = np.maximum(np.take_along_axis(squared, near, axis=1), 1e-9)
    first = np.take_along_axis(near, distance.argmin(axis=1)[:, None], axis=1)
    apart = np.linalg.norm(places[near] - places[first], axis=2)
    weight = distance.min(axis=1, keepdims=True) / distance * (apart <= radius)
    return np.asarray((places[near] * weight[..., None]).sum(axis=1) / weight.sum(axis=1, keepdims=True))


def _padded(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.pad(rows, ((0, 0), (0, 2 - rows.shape[1])))


def _in_unit_square(places: NDArray[np.float32]) -> NDArray[np.float32]:
    low, high = places.min(axis=0), places.max(axis=0)
    side = float((high - low).max()) or 1.0
    return np.asarray((places - (low + high) / 2) / side + 0.5, dtype=np.float32)
