"""`ssp`: how far a sample is from the prototype nearest to it, in an embedding that was learned without labels.

Believes that a sample near the middle of a cluster is typical, easy and has many like it, and that one far from every
middle is hard and carries more. With c_1 .. c_k the centres that k-means finds among the features f of all samples:

    d(z) = min_j  1 - cos(f_z, c_j)        metric = "cosine", the source's
    d(z) = min_j  | f_z - c_j |            metric = "euclidean"

The source keeps the far and hard end, and finds the easy end better where little data is left: that is selector
`bottom`, or `keep="near"` here. It clusters the embedding of SWaV, and finds that the number of prototypes does not
matter within an order of magnitude of the number of classes, which is the default. Labels are used for nothing else.

For cosines, features are scaled to length 1 before k-means (Lloyd's, scikit-learn) and centres compared by direction.
More than `EXACT` samples are clustered by faiss, which learns the centres from `SAMPLED` samples a cluster. Features
are read a few thousand rows at a time: O(N k d) time, O(N) memory beside what k-means learns from.

Scale: 0 at a prototype; cosine distances end at 2. Keep: high. Hard: high.
Source: Sorscher et al., Beyond neural scaling laws: beating power law scaling via data pruning, NeurIPS 2022, section
"A self-supervised pruning metric". The embedding: `training/self_supervised.py`, the user's own, or a pretrained
network's (`evidence_kinds/given_embedding.py`).
"""

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso import errors
from moso.evidence_kinds.label_free_embedding import EMBEDDING
from moso.randomness import generator, key
from moso.scores.score import Score, ScoreInput
from moso.settings import Settings

Metric = Literal["cosine", "euclidean"]
End = Literal["far", "near"]
Rows = NDArray[np.float32]

EXACT = 50_000
SAMPLED = 256
_ROUNDS = 50
_STARTS = 5  # of k-means, of which the best counts; large data has one, as its many samples leave less to chance
_CHUNK = 16_384


class SspSettings(Settings):
    """How many prototypes there are, and what is near."""

    clusters: int = Field(0, ge=0, description="how many prototypes; 0 = as many as there are classes")
    metric: Literal["cosine", "euclidean"] = Field(
        "cosine", description="distance by direction alone (the source's), or by length, too"
    )


def ssp_scores(
    features: NDArray[Any], clusters: int, seed: int = 0, *, metric: Metric = "cosine", keep: End = "far"
) -> NDArray[np.float64]:
    """The distance of every sample to its nearest prototype, `[n]`; with `keep="near"`, minus that distance.

    `features: [n, d]` may be a memory map.

    >>> features = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    >>> ssp_scores(features, clusters=2).round(2).argmax()
    np.int64(4)
    """
    _check(features, clusters)
    prototypes = find_prototypes(features, clusters, seed, metric)
    distances = np.empty(len(features))
    squared = np.square(prototypes.astype(np.float64)).sum(axis=1)
    for start in range(0, len(features), _CHUNK):
        rows = _rows(features[start : start + _CHUNK], metric)
        nearest = (squared - 2 * (rows @ prototypes.T).astype(np.float64)).argmin(axis=1)
        away = rows.astype(np.float64) - prototypes[nearest]
        distances[start : start + len(rows)] = np.square(away).sum(axis=1)
    # Between two directions of length 1, 1 - cos is half of the squared distance.
    distances = distances / 2 if metric == "cosine" else np.sqrt(distances)
    return distances if keep == "far" else -distances


def find_prototypes(features: NDArray[Any], clusters: int, seed: int = 0, metric: Metric = "cosine") -> Rows:
    """The centres `[clusters, d]` that k-means finds; for cosines, of length 1.

    >>> find_prototypes(np.array([[1.0, 0.0], [0.0, 2.0]]), 2).sum(axis=0)
    array([1., 1.], dtype=float32)
    """
    _check(features, clusters)
    if len(features) <= EXACT:
        centres = _by_scikit_learn(_rows(features, metric), clusters, seed)
    else:
        most = min(len(features), clusters * SAMPLED)
        sample = np.sort(generator(seed, "ssp", "sample", len(features)).choice(len(features), most, replace=False))
        centres = _by_faiss(_rows(features[sample], metric), clusters, seed)
    return _rows(centres, metric)


def _by_scikit_learn(rows: Rows, clusters: int, seed: int) -> Rows:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    search = KMeans(clusters, n_init=_STARTS, max_iter=_ROUNDS, random_state=key(seed, "ssp", "k-means") % 2**32)
    with warnings.catch_warnings():
        # Fewer different samples than clusters: prototypes then coincide, and every sample is at one.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(search.fit(rows).cluster_centers_, dtype=np.float32)


def _by_faiss(rows: Rows, clusters: int, seed: int) -> Rows:
    try:
        import faiss
    except ImportError as problem:
        raise errors.PackageMissing(
            f"prototypes of more than {EXACT} samples are found by faiss, which is not installed; "
            'run `pip install "moso-prune[neighbours]"`'
        ) from problem
    from sklearn.cluster import kmeans_plusplus

    start = key(seed, "ssp", "k-means") % 2**31
    # From samples at random, which is faiss's own way to begin, several centres often share one cluster.
    first, _ = kmeans_plusplus(rows, clusters, random_state=start)
    search = faiss.Kmeans(
        rows.shape[1], clusters, niter=_ROUNDS, seed=start, min_points_per_centroid=1, max_points_per_centroid=len(rows)
    )
    search.train(rows, init_centroids=first)
    return np.asarray(search.centroids, dtype=np.float32)


def _rows(rows: NDArray[Any], metric: Metric) -> Rows:
    """Rows as they are, or of length 1; a row of nothing stays one."""
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    if metric == "euclidean":
        return rows
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1), dtype=np.float32)


def _check(features: NDArray[Any], clusters: int) -> None:
    if features.ndim != 2 or features.dtype.kind not in "fiu":
        raise errors.ShapeMismatch(
            f"features must be one row of numbers a sample, not {features.dtype} of shape {features.shape}"
        )
    if not 1 <= clusters <= len(features):
        raise errors.SettingInvalid(
            f"{clusters} clusters of {len(features)} samples cannot be; there must be from 1 to {len(features)}"
        )
    for start in range(0, len(features), _CHUNK):
        finite = np.isfinite(features[start : start + _CHUNK]).all(axis=1)
        if not finite.all():
            raise errors.ValuesNotFinite(
                f"the features of sample {start + int(np.argmin(finite))} are not all finite numbers"
            )


def _compute(given: ScoreInput, settings: SspSettings) -> NDArray[np.float64]:
    clusters = settings.clusters
    if not clusters:
        if given.labels is None:
            raise errors.SettingMissing(
                "score 'ssp' makes as many prototypes as there are classes, and here are none; set ssp.clusters"
            )
        clusters = len(np.unique(given.labels))
    return ssp_scores(given.read(EMBEDDING), clusters, given.seed, metric=settings.metric)


SSP = Score(
    "ssp",
    "samples far from every prototype of an embedding learned without labels are hard and carry more",
    _compute,
    frozenset({"embedding"}),
    hard="high",
    scale="a distance between features; 0 at a prototype, cosine distances end at 2",
    formula="min_j 1 - cos(f, c_j), c_j the centres of k-means",
    source="Sorscher et al., NeurIPS 2022",
    settings=SspSettings,
)
