"""`k-center`: keep samples so that every sample is near a kept one.

Believes that regions of feature space without kept samples cannot be learned; scores are ignored. Greedy farthest-first
traversal: the first centre is the sample with the lowest hash(seed, id), each further centre is the sample farthest
from all centres so far. The radius, the largest distance from a sample to its nearest centre, is at most twice the
optimum for the same number of centres.

O(N k d) for k centres. Above `block` samples the data is divided at random into blocks, which are covered separately
with their share of the budget: O(N block d), and every sample has a centre within twice the optimal radius of *its
block's* problem. A larger `block` is nearer to the source; a block of at least N is the source's algorithm. By default
all classes are treated together, as in the source.

Source: Sener & Savarese, Active Learning for Convolutional Neural Networks: A Core-Set Approach, ICLR 2018, Algorithm
1 (the factor 2: Gonzalez 1985).
"""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.randomness import hashes
from moso.selection.blocks import KEPT, Gram, blocks
from moso.selection.classes import ClassSettings, per_class
from moso.selection.problem import Problem


class KCenterSettings(ClassSettings):
    """Settings of `k-center`: together or class by class, and the block size."""

    block: int = Field(
        KEPT, ge=2, description="samples covered at once; more are dealt into blocks of at most this many"
    )


def k_center(problem: Problem, settings: KCenterSettings) -> NDArray[np.int64]:
    """Return `budget` positions: the centres."""

    def cover(part: Problem) -> NDArray[np.int64]:
        return np.concatenate([where[_farthest_first(one)] for where, one in blocks(part, settings.block, "k-center")])

    return per_class(problem, "k-center", settings.classes, cover)


def _farthest_first(problem: Problem) -> NDArray[np.int64]:
    points = problem.rows_for("k-center").take(np.arange(len(problem))).astype(np.float64)
    # Centred, because distances computed from inner products lose precision far from the origin.
    gram = Gram(points - points.mean(axis=0))
    centres = np.empty(problem.budget, dtype=np.int64)
    nearest = np.full(len(problem), np.inf)
    centre = int(np.argmin(hashes(problem.keys, problem.seed, "k-center")))
    for step in range(problem.budget):
        centres[step] = centre
        squared = gram.squared_norms + gram.squared_norms[centre] - 2 * gram.row(centre)
        np.minimum(nearest, squared, out=nearest)
        nearest[centre] = -np.inf  # never chosen again; a duplicate of it (distance 0) still can be
        centre = int(np.argmax(nearest))
    return centres
