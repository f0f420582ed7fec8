"""`d2`: difficulty and diversity by message passing on a nearest-neighbour graph (D2 pruning).

Believes that a sample is worth keeping if the sample and its neighbourhood are important, and less so once a neighbour
is kept. The undirected graph joins every sample with its `neighbours` nearest samples in feature space. With d the
distance of two joined samples and x the scores:

    forward:   x_i <- x_i + sum_j exp(-gamma_forward d_ij) x_j            once, for all samples at once
    reverse:   keep the sample k of the highest x, then  x_j <- x_j - exp(-gamma d_kj) x_k  for all its neighbours j;
               again, until the budget is spent

Messages are weights and must not be negative: if there are negative scores, all scores are shifted so that the lowest
is 0. The distance is Euclidean as in the authors' code; the kernel of the paper squares it (`squared = true`). Both
gammas are per unit of distance: for features of large norm, distances are large, messages vanish, and the selector
becomes `top`.

Neighbours are exact up to 50,000 samples and approximate above (`neighbours.py`). Message passing is O(N k log N).

Source: Maharana, Yadav & Bansal, D2 Pruning: Message Passing for Balancing Diversity and Difficulty in Data Pruning,
ICLR 2024.
"""

import heapq

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.sparse import csr_array

from moso.selection.neighbours import nearest
from moso.selection.problem import Problem
from moso.settings import Settings

# Smallest score in a message, as in the authors' code, so that a neighbour with score 0 still contributes.
_LEAST = 1e-7


class D2Settings(Settings):
    """Settings of `d2`: the graph, and how far messages reach."""

    neighbours: int = Field(10, ge=1, description="nearest samples each sample is joined with")
    gamma: float = Field(
        0.1, ge=0, description="how fast a kept sample's discount fades with distance (the paper's gamma_r)"
    )
    gamma_forward: float = Field(1.0, ge=0, description="how fast a neighbour's score fades with distance (gamma_f)")
    squared: bool = Field(False, description="fade with the squared distance (the paper's formula, not its code)")


def d2(problem: Problem, settings: D2Settings) -> NDArray[np.int64]:
    """Return `budget` positions in the order in which they were chosen."""
    scores = problem.finite_scores("d2")
    scores = scores - min(0.0, float(scores.min()))
    graph = neighbour_graph(*nearest(problem.rows_for("d2"), settings.neighbours))
    if settings.squared:
        graph.data **= 2
    forward = csr_array((np.exp(-settings.gamma_forward * graph.data), graph.indices, graph.indptr), graph.shape)
    return _keep(scores + forward @ np.maximum(scores, _LEAST), graph, settings.gamma, problem.budget)


def neighbour_graph(where: NDArray[np.int64], distances: NDArray[np.float64]) -> csr_array:
    """Return the undirected graph of neighbours as a sparse matrix of distances.

    Args:
        where: Positions of each sample's nearest samples, shape ``[samples, neighbours]``.
        distances: Distances to these samples, same shape.

    Returns:
        ``[samples, samples]``, with an entry wherever one of two samples is among the other's nearest.

    Example:
        >>> neighbour_graph(np.array([[1], [0], [1]]), np.array([[1.0], [1.0], [2.0]])).toarray()
        array([[0., 1., 0.],
               [1., 0., 2.],
               [0., 2., 0.]])
    """
    count = len(where)
    one, other = np.repeat(np.arange(count), where.shape[1]), where.ravel()
    pairs, first = np.unique(np.concatenate([one * count + other, other * count + one]), return_index=True)
    lengths = np.concatenate([distances.ravel()] * 2)[first]
    starts = np.concatenate([[0], np.cumsum(np.bincount(pairs // count, minlength=count))])
    return csr_array((lengths, pairs % count, starts), shape=(count, count))


def _keep(values: NDArray[np.float64], graph: csr_array, gamma: float, budget: int) -> NDArray[np.int64]:
    discount = np.exp(-gamma * graph.data)
    taken = np.zeros(len(values), dtype=bool)
    kept = np.empty(budget, dtype=np.int64)
    # Lazy updates: a decreased value is corrected when its entry reaches the top of the heap; an increased value (a
    # kept neighbour was negative) is pushed at once. So the top of the heap is never below the highest value.
    waiting = list(zip((-values).tolist(), range(len(values)), strict=True))
    heapq.heapify(waiting)
    step = 0
    while step < budget:
        negative, sample = heapq.heappop(waiting)
        value = values[sample]
        if taken[sample]:
            continue
        if -negative != value:
            heapq.heappush(waiting, (-value, sample))
            continue
        kept[step], taken[sample] = sample, True
        step += 1
        edges = slice(graph.indptr[sample], graph.indptr[sample + 1])
        joined = graph.indices[edges]
        values[joined] -= discount[edges] * value
        if value < 0:
            for neighbour in joined[~taken[joined]].tolist():
                heapq.heappush(waiting, (-values[neighbour], neighbour))
    return kept
