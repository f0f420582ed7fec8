"""`tied`: samples of a cluster share the mean of their scores; the clusters with the highest means are kept.

Believes that the score of one sample is mostly noise and that samples which lie together in feature space are worth the
same: the mean over a cluster has the noise of one sample divided by the root of its size. Derivatives of a training run
by weights of single samples overfit the risk that they are taken of, derivatives by weights of clusters less so; a
derivative by the weight of a cluster is the sum of those of its samples, so nothing is differentiated again.

    c(z)   the k-means cluster of z's features (scaled to norm 1), over all classes
    s'(z)  = mean of s over the samples of c(z);   keep the highest s', of equals the higher s

With `classes = "balanced"` or `"proportional"`, every class keeps its own highest s'. Above 50,000 samples, clusters
are learned from 50,000 of them, or from 256 per cluster. O(N k d) time, O(N) memory beside the rows that clusters are
learned from.

Source: tied weights, Engstrom et al., Optimizing ML Training with Metagradient Descent, 2025; means of scores in their
place, and the order among samples of a cluster, are ours.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.scores.ssp import EXACT, SAMPLED, find_prototypes
from moso.selection.classes import ClassSettings, per_class
from moso.selection.feature_rows import Features
from moso.selection.orders import best_first, shuffled
from moso.selection.problem import Problem


class TiedSettings(ClassSettings):
    """Settings of `tied`: the number of clusters."""

    clusters: int = Field(
        128, ge=1, description="k-means clusters of features whose samples share their mean score; at most the samples"
    )


def tied(problem: Problem, settings: TiedSettings) -> NDArray[np.int64]:
    """Return `budget` positions of the clusters with the highest mean scores."""
    scores, features = problem.finite_scores("tied"), problem.rows_for("tied")
    # Few samples: every one is a cluster of its own, and keeps its score.
    clusters = min(settings.clusters, len(problem))
    means = cluster_means(scores, clusters_of(features, clusters, problem.keys, problem.seed))
    order, worth = np.lexsort((-scores, -means)), np.empty(len(problem))
    worth[order] = -np.arange(len(problem))
    tied_scores = replace(problem, scores=worth)
    return per_class(tied_scores, "tied", settings.classes, lambda part: best_first(part.scores)[: part.budget])


def clusters_of(features: Features, clusters: int, keys: NDArray[np.uint64], seed: int) -> NDArray[np.int64]:
    """Return the number of each sample's cluster, shape ``[samples]``.

    Example:
        >>> rows = Features(np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]], dtype=np.float32))
        >>> found = clusters_of(rows, 2, np.arange(3, dtype=np.uint64), 0)
        >>> bool(found[0] == found[1]), bool(found[0] == found[2])
        (True, False)
    """
    features = features.scaled()
    most = max(EXACT, SAMPLED * clusters)
    learned = np.arange(len(features)) if len(features) <= most else np.sort(shuffled(keys, seed, "tied")[:most])
    centres = find_prototypes(features.take(learned), clusters, seed)
    found = np.empty(len(features), dtype=np.int64)
    for start, rows in features.chunks():
        # Centres have norm 1, too: the nearest has the largest product.
        found[start : start + len(rows)] = (rows @ centres.T).argmax(axis=1)
    return found


def cluster_means(scores: NDArray[np.float64], cluster: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mean score of each sample's cluster, shape ``[samples]``.

    Example:
        >>> cluster_means(np.array([1.0, 3.0, 5.0]), np.array([4, 4, 0]))
        array([2., 2., 5.])
    """
    sizes = np.maximum(np.bincount(cluster), 1)
    return np.asarray((np.bincount(cluster, weights=scores) / sizes)[cluster])
