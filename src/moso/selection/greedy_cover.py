"""Greedy facility location on a dense matrix of similarities, shared by selectors that cover every sample of a class.

With s_ji >= 0 the similarity of candidate j to sample i, facility location is the monotone submodular function

    F(A) = sum_i max_{j in A} s_ji,   F({}) = 0

The greedy algorithm adds the candidate with the largest gain F(A + j) - F(A), and reaches (1 - 1/e) of the optimum
(Nemhauser, Wolsey & Fisher 1978). The lazy form (Minoux 1978) keeps old gains as upper bounds, because gains only
fall, and computes a gain anew only when its bound is the largest: the choices are those of the plain greedy
algorithm, bit for bit. O(n^2) memory, O(n) per computed gain.
"""

import heapq

import numpy as np
from numpy.typing import NDArray

from moso import errors

# Most samples whose matrix is held at once: 1.6 GB in float32.
LARGEST = 20_000

Similarity = NDArray[np.float32] | NDArray[np.float64]


def check_size(selector: str, count: int, largest: int = LARGEST) -> None:
    """Check that the matrix of `count` samples may be made.

    Args:
        selector: Name of the selector, for the message.
        count: Number of samples compared with each other.
        largest: Largest number of samples that the selector can compare at once.

    Raises:
        MethodImpossible: There are more samples than `largest`.

    Example:
        >>> check_size("craig", 30_000)
        Traceback (most recent call last):
        ...
        moso.errors.MethodImpossible: selector 'craig' compares all samples of a class, and 30000 are more than the ...
    """
    if count > largest:
        raise errors.MethodImpossible(
            f"selector {selector!r} compares all samples of a class, and {count} are more than the {largest} that it "
            "can; use another selector, such as 'k-center' or 'herding'"
        )


def greedy_cover(similarity: Similarity, budget: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Choose `budget` candidates by lazy greedy facility location; ties go to the lower position.

    Args:
        similarity: How well candidate j (row) covers sample i (column), not negative, shape ``[n, n]``.
        budget: Number of candidates to choose, at most n.

    Returns:
        Positions in the order of choice, and the gain of each when it was chosen, both of shape ``[budget]``; a smaller
        budget gives the first of them.

    Example:
        >>> order, gains = greedy_cover(np.array([[3.0, 2.0, 0.0], [2.0, 3.0, 0.0], [0.0, 0.0, 3.0]]), 2)
        >>> order.tolist(), gains.tolist()
        ([0, 2], [5.0, 3.0])
    """
    count = len(similarity)
    order, gains = np.empty(budget, dtype=np.int64), np.empty(budget)
    covered = np.zeros(count, dtype=similarity.dtype)
    # Entries are (-gain, position, number of choices when the gain was computed): the heap breaks ties by position.
    waiting = [(-float(similarity[j].sum(dtype=np.float64)), j, 0) for j in range(count)]
    heapq.heapify(waiting)
    for step in range(budget):
        # A gain of 0 stays 0; any other may have fallen since an earlier choice.
        while waiting[0][2] < step and waiting[0][0] < 0:
            j = waiting[0][1]
            heapq.heapreplace(waiting, (-_gain(similarity[j], covered), j, step))
        negative, j, _ = heapq.heappop(waiting)
        order[step], gains[step] = j, -negative
        np.maximum(covered, similarity[j], out=covered)
    return order, gains


def _gain(row: Similarity, covered: Similarity) -> float:
    # Always summed in the same order, so that a computed gain, too, can only fall.
    return float(np.maximum(row - covered, 0).sum(dtype=np.float64))


def cluster_sizes(similarity: Similarity, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many samples each chosen candidate covers best, itself included; the sum is the number of samples.

    A chosen sample belongs to itself, also if it has a twin among the chosen; ties between others go to the lower
    position.

    Args:
        similarity: As `greedy_cover` takes it, shape ``[n, n]``.
        chosen: Positions of the candidates, each once.

    Returns:
        One size per candidate, in the order of `chosen`.

    Example:
        >>> cluster_sizes(np.array([[3.0, 2.0, 0.0], [2.0, 3.0, 0.0], [0.0, 0.0, 3.0]]), np.array([0, 2]))
        array([2, 1])
    """
    best = np.full(len(similarity), -np.inf)
    owner = np.zeros(len(similarity), dtype=np.int64)
    for place in np.argsort(chosen, kind="stable"):
        row = similarity[chosen[place]]
        better = row > best
        owner[better] = place
        best[better] = row[better]
    owner[chosen] = np.arange(len(chosen))
    return np.bincount(owner, minlength=len(chosen))
