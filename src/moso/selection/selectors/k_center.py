"""`k-center`: keep samples so that every sample has a kept one near it.

Believes that what is not covered cannot be learned, and looks at features alone. Greedy: the first centre is the
sample with the lowest hash(seed, id), each further one the sample farthest from all centres so far. Its radius, the
largest distance from a sample to its nearest centre, is at most twice the smallest that as many centres can have.

O(N k d) for k centres. Beyond `block` samples the data is dealt at random into blocks that are covered one by one,
each with its share of the budget: O(N block d), and every sample has a centre within twice the best radius of *its
block's* own problem. A larger `block` is nearer to the source; one of at least N is the source itself. By default all
classes together, as there.

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
    """Whether `k-center` goes class by class, and how much it covers at once."""

    block: int = Field(
        KEPT, ge=2, description="samples covered at once; more are dealt into blocks of at most this many"
    )


def k_center(problem: Problem, settings: KCenterSettings) -> NDArray[np.int64]:
    """`budget` centres."""

    def cover(part: Problem) -> NDArray[np.int64]:
        return np.concatenate([where[_farthest_first(one)] for where, one in blocks(part, settings.block, "k-center")])

    return per_class(problem, "k-center", settings.classes, cover)


def _farthest_first(problem: Problem) -> NDArray[np.int64]:
    points = problem.rows_for("k-center").take(np.arange(len(problem))).astype(np.float64)
    # Distances from inner products lose digits with the distance from the origin: the middle goes there.
    gram = Gram(points - points.mean(axis=0))
    centres = np.empty(problem.budget, dtype=np.int64)
    nearest = np.full(len(problem), np.inf)
    centre = int(np.argmin(hashes(problem.keys, problem.seed, "k-center")))
    for step in range(problem.budget):
        centres[step] = centre
        squared = gram.squared_norms + gram.squared_norms[centre] - 2 * gram.row(centre)
        np.minimum(nearest, squared, out=nearest)
        nearest[centre] = -np.inf  # its twin may be taken, when nothing farther is left, but not itself again
        centre = int(np.argmax(nearest))
    return centres
