"""`graph-cut`: keep samples that are similar to their whole class and not to each other.

Believes that a subset should represent its class without repeating itself; scores are ignored. With s_ij the cosine of
the features of samples i and j (negative cosines count as 0, and s_ii = 1), the kept set A of a class V maximises

    F(A) = weight * sum_{i in V, j in A} s_ij - sum_{i, j in A} s_ij

greedily: each step keeps the sample with the largest gain

    F(A + j) - F(A) = weight * sum_{i in V} s_ij - s_jj - 2 sum_{i in A} s_ij

and ties go to the lower id. F is submodular; with weight >= 2 it is monotone, too, and the greedy set reaches at least
(1 - 1/e) of the largest F of any set of its size. The order does not depend on the budget.

A class (or all samples together, without labels) of at most `dense` samples is compared pair by pair: O(n^2 d) time and
4 n^2 bytes. In a larger one, s_ij is kept where one of the two samples is among the `neighbours` nearest of the other,
and counts as 0 elsewhere: O(n k) memory and the time of the search for neighbours.

Source: Wei, Iyer & Bilmes, Submodularity in Data Subset Selection and Active Learning, ICML 2015; as a baseline of data
pruning: Guo et al., DeepCore, 2022.
"""

import heapq

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.sparse import csr_array

from moso.selection.classes import per_class
from moso.selection.greedy_cover import Similarity
from moso.selection.problem import Problem
from moso.selection.selectors.facility_location import SimilaritySettings
from moso.selection.similarity import cosine_graph, cosine_matrix


class GraphCutSettings(SimilaritySettings):
    """Settings of `graph-cut`: the weight of likeness to the class against likeness among what is kept."""

    weight: float = Field(2.0, ge=0, description="what likeness to all samples counts (lambda); monotone from 2 on")


def graph_cut(problem: Problem, settings: GraphCutSettings) -> NDArray[np.int64]:
    """Return `budget` positions that represent each class and repeat each other little."""

    def cut(part: Problem) -> NDArray[np.int64]:
        features = part.rows_for("graph-cut")
        if len(part) <= settings.dense:
            return dense_cut(cosine_matrix(features), part.budget, settings.weight)
        return sparse_cut(cosine_graph(features, settings.neighbours), part.budget, settings.weight)

    return per_class(problem, "graph-cut", settings.classes, cut)


def dense_cut(similarity: Similarity, budget: int, weight: float) -> NDArray[np.int64]:
    """Choose `budget` samples by greedy graph cut on all pairs; ties go to the lower position.

    Example:
        >>> dense_cut(np.array([[1, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0.8], [0, 0, 0.8, 1]]), 2, weight=2.0)
        array([0, 2])
    """
    gains = weight * similarity.sum(axis=1, dtype=np.float64) - similarity.diagonal()
    chosen = np.empty(budget, dtype=np.int64)
    for step in range(budget):
        chosen[step] = np.argmax(gains)
        gains -= 2 * similarity[chosen[step]].astype(np.float64)
        gains[chosen[step]] = -np.inf
    return chosen


def sparse_cut(similarity: csr_array, budget: int, weight: float) -> NDArray[np.int64]:
    """Choose `budget` samples by greedy graph cut on a graph; ties go to the lower position.

    Args:
        similarity: Symmetric, not negative, shape ``[samples, samples]``; what is not stored counts as 0.
        budget: Number of samples to choose.
        weight: Weight of the similarity to all samples.

    Returns:
        Positions in the order of choice.
    """
    starts, columns, values = similarity.indptr, similarity.indices, similarity.data
    sums: NDArray[np.float64] = np.add.reduceat(values, starts[:-1], dtype=np.float64)
    gains = weight * sums - similarity.diagonal()
    # Gains only fall, so an entry that is no longer its sample's gain is put back and another may be the largest.
    waiting = [(-gain, position) for position, gain in enumerate(gains.tolist())]
    heapq.heapify(waiting)
    chosen = np.empty(budget, dtype=np.int64)
    for step in range(budget):
        while waiting[0][0] != -gains[waiting[0][1]]:
            heapq.heapreplace(waiting, (float(-gains[waiting[0][1]]), waiting[0][1]))
        chosen[step] = heapq.heappop(waiting)[1]
        own = slice(starts[chosen[step]], starts[chosen[step] + 1])
        gains[columns[own]] -= 2 * values[own].astype(np.float64)
    return chosen
