"""`ssp`: the distance of a sample from its nearest prototype, in an embedding that was learned without labels.

Believes that samples near the centre of a cluster are typical, easy and redundant, and that samples far from every
centre are hard and informative. With c_1 .. c_k the centres that k-means finds among the features f of all samples:

    d(z) = min_j  1 - cos(f_z, c_j)        metric = "cosine", the source's
    d(z) = min_j  | f_z - c_j |            metric = "euclidean"

The source keeps the far, hard end; with little data left it finds the near, easy end better (selector `bottom`, or
`keep="near"` here). The source clusters the embedding of SWaV, and finds that the number of prototypes does not matter
within an order of magnitude of the number of classes. The number of classes is the default; labels serve no other
purpose.

For cosine distances, features are scaled to norm 1 before k-means (Lloyd's algorithm, scikit-learn) and so are the
centres. Above `EXACT` samples, faiss learns the centres from `SAMPLED` samples per cluster. Features are read in chunks
of a few thousand rows: O(N k d) time, O(N) memory beside the training sample of k-means.

Scale: 0 at a prototype; cosine distances end at 2. Keep: high. Hard: high.
Source: Sorscher et al., Beyond neural scaling laws: beating power law scaling via data pruning, NeurIPS 2022, section
"A self-supervised pruning metric". The embedding: `training/self_supervised.py`, the user's own, or a pretrained
network's (`evidence_kinds/given_embedding.py`).
"""

import warnings
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso import errors
from moso.columns import Array
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
_STARTS = 5  # restarts of k-means, of which the best is used; faiss on large data is less sensitive and has one start
_CHUNK = 16_384


class SspSettings(Settings):
    """Settings of `ssp`: number of prototypes and metric."""

    clusters: int = Field(0, ge=0, description="how many prototypes; 0 = as many as there are classes")
    metric: Literal["cosine", "euclidean"] = Field(
        "cosine", description="distance by direction alone (the source's), or by length, too"
    )


def ssp_scores(
    features: Array, clusters: int, seed: int = 0, *, metric: Metric = "cosine", keep: End = "far"
) -> NDArray[np.float64]:
    """Compute the distance of every sample to its nearest prototype.

    Args:
        features: One row per sample, shape ``[samples, dimension]``; may be a memory map.
        clusters: Number of prototypes, from 1 to the number of samples.
        seed: Seed of k-means.
        metric: ``"cosine"`` or ``"euclidean"``.
        keep: ``"far"`` returns the distances, ``"near"`` the negated distances.

    Returns:
        Scores, shape ``[samples]``; high means keep.

    Raises:
        ShapeMismatch: `features` is not a numeric matrix.
        SettingInvalid: `clusters` is out of range.
        ValuesNotFinite: A feature is NaN or infinite.
        PackageMissing: More than `EXACT` samples, and faiss is not installed.

    Example:
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
    # For vectors of norm 1, 1 - cos is half of the squared Euclidean distance.
    distances = distances / 2 if metric == "cosine" else np.sqrt(distances)
    return distances if keep == "far" else -distances


def find_prototypes(features: Array, clusters: int, seed: int = 0, metric: Metric = "cosine") -> Rows:
    """Return the centres that k-means finds, shape ``[clusters, dimension]``; for cosine distances, of norm 1.

    The arguments and errors are those of `ssp_scores`.

    Example:
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
        # With fewer distinct samples than clusters, prototypes coincide and every distance is 0: no need to warn.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(search.fit(rows).cluster_centers_, dtype=np.float32)


def _by_faiss(rows: Rows, clusters: int, seed: int) -> Rows:
    try:
        import faiss
    except ImportError as problem:
        raise errors.package_missing("faiss", "neighbours", f"k-means of more than {EXACT} samples") from problem
    from sklearn.cluster import kmeans_plusplus

    start = key(seed, "ssp", "k-means") % 2**31
    # faiss initialises with random samples, after which several centres often share one cluster; k-means++ avoids it.
    first, _ = kmeans_plusplus(rows, clusters, random_state=start)
    search = faiss.Kmeans(
        rows.shape[1], clusters, niter=_ROUNDS, seed=start, min_points_per_centroid=1, max_points_per_centroid=len(rows)
    )
    search.train(rows, init_centroids=first)
    return np.asarray(search.centroids, dtype=np.float32)


def _rows(rows: Array, metric: Metric) -> Rows:
    """Return contiguous float32 rows; for cosine distances scaled to norm 1, except rows of zeros."""
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    if metric == "euclidean":
        return rows
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1), dtype=np.float32)


def _check(features: Array, clusters: int) -> None:
    check_rows(features)
    if not 1 <= clusters <= len(features):
        raise errors.SettingInvalid(
            f"{clusters} clusters of {len(features)} samples are not possible; give 1 to {len(features)}"
        )


def check_rows(features: Array) -> None:
    """Refuse what is not one row of finite numbers per sample.

    Raises:
        ShapeMismatch: `features` is not a numeric matrix.
        ValuesNotFinite: A feature is NaN or infinite.
    """
    if features.ndim != 2 or features.dtype.kind not in "fiu":
        raise errors.ShapeMismatch(
            f"features must be one row of numbers per sample, not {features.dtype} of shape {features.shape}"
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
                "score 'ssp' makes as many prototypes as there are classes, and the data has none; set ssp.clusters"
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
