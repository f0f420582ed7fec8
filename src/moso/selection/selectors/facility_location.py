"""`facility-location`: keep samples so that every sample of its class is similar to a kept one.

Believes that a sample can go if one like it stays; scores are ignored. With s_ij the cosine of the features of samples
i and j (negative cosines count as 0, and s_ii = 1), the kept set A of a class V maximises

    F(A) = sum_{i in V} max_{j in A} s_ij

greedily: each step keeps the sample with the largest gain F(A + j) - F(A), ties go to the lower id. F is monotone and
submodular, so the greedy set reaches at least (1 - 1/e) of the largest F of any set of its size. The order does not
depend on the budget: what a larger ratio keeps is part of what a smaller one keeps.

A class (or all samples together, without labels) of at most `dense` samples is compared pair by pair: O(n^2 d) time and
4 n^2 bytes. In a larger one, s_ij is kept where one of the two samples is among the `neighbours` nearest of the other,
and counts as 0 elsewhere: O(n k) memory and the time of the search for neighbours, and the guarantee holds for the F of
this graph. Gains are computed lazily.

Source: facility location and the greedy bound: Nemhauser, Wolsey & Fisher 1978; lazy gains: Minoux 1978; on features,
class by class, for subsets of training data: Wei, Iyer & Bilmes, Submodularity in Data Subset Selection and Active
Learning, ICML 2015.
"""

import heapq

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.sparse import csr_array

from moso.selection.blocks import KEPT
from moso.selection.classes import ClasswiseSettings, per_class
from moso.selection.greedy_cover import greedy_cover
from moso.selection.problem import Problem
from moso.selection.similarity import cosine_graph, cosine_matrix


class SimilaritySettings(ClasswiseSettings):
    """Settings of selectors that compare samples by cosine: the classes, and the size up to which all pairs count."""

    dense: int = Field(KEPT, ge=1, description="samples up to which all pairs are compared; neighbours above")
    neighbours: int = Field(16, ge=1, description="nearest samples that are compared where there are more than dense")


def facility_location(problem: Problem, settings: SimilaritySettings) -> NDArray[np.int64]:
    """Return `budget` positions: the samples that cover each class best."""

    def cover(part: Problem) -> NDArray[np.int64]:
        features = part.rows_for("facility-location")
        if len(part) <= settings.dense:
            return greedy_cover(cosine_matrix(features), part.budget)[0]
        return sparse_cover(cosine_graph(features, settings.neighbours), part.budget)

    return per_class(problem, "facility-location", settings.classes, cover)


def sparse_cover(similarity: csr_array, budget: int) -> NDArray[np.int64]:
    """Choose `budget` samples by lazy greedy facility location on a graph; ties go to the lower position.

    Args:
        similarity: Symmetric, not negative, shape ``[samples, samples]``; what is not stored counts as 0.
        budget: Number of samples to choose.

    Returns:
        Positions in the order of choice.

    Example:
        >>> sparse_cover(csr_array(np.array([[3.0, 2.0, 0.0], [2.0, 3.0, 0.0], [0.0, 0.0, 3.0]])), 2)
        array([0, 2])
    """
    starts, columns, values = similarity.indptr, similarity.indices, similarity.data
    covered = np.zeros(len(starts) - 1, dtype=values.dtype)

    def gain(position: int) -> float:
        own = slice(starts[position], starts[position + 1])
        return float(np.maximum(values[own] - covered[columns[own]], 0).sum(dtype=np.float64))

    # A bound on each gain, with the number of choices when it was computed; gains only fall.
    bounds = [(-gain(position), position, 0) for position in range(len(covered))]
    heapq.heapify(bounds)
    chosen = np.empty(budget, dtype=np.int64)
    for step in range(budget):
        while bounds[0][2] < step and bounds[0][0] < 0:
            heapq.heapreplace(bounds, (-gain(bounds[0][1]), bounds[0][1], step))
        chosen[step] = heapq.heappop(bounds)[1]
        own = slice(starts[chosen[step]], starts[chosen[step] + 1])
        covered[columns[own]] = np.maximum(covered[columns[own]], values[own])
    return chosen
