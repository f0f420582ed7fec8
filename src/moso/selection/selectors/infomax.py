"""`infomax`: the highest total score minus the redundancy among kept samples (InfoMax).

Believes that a sample adds its own value minus its similarity to the samples already kept. With x_z in {0, 1} for
dropped and kept, s the scores scaled to [0, 1], and K the cosine similarity of two samples' features where one is among
the other's nearest, 0 elsewhere:

    maximise  sum_z s_z x_z - weight * sum_{z,z'} K_{zz'} x_z x_z'      so that  sum_z x_z = budget

x is relaxed to [0, 1] and optimised by proximal steps (mirror ascent): each step multiplies x by exp(gradient), with
gradient s - weight (K + K^T) x, and projects x in the Kullback-Leibler sense onto the vectors in [0, 1] with the given
sum. All entries of x start equal; after `iterations` steps the `budget` largest entries are kept.

The sparse K makes a step O(N k). Data of more than `partition` samples is divided at random into parts, which are
solved separately with their share of the budget, as in the source. Neighbours are exact in parts of up to 50,000
samples and approximate above.

Source: Tan et al., Data Pruning by Information Maximization, ICLR 2025: the objective, the sparse K, the partition
and a gradient-based solver. Scaling the scores, and the Kullback-Leibler form of the steps with x <= 1 throughout, are
ours.
"""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.sparse import csr_array

from moso.selection.blocks import blocks
from moso.selection.problem import Problem
from moso.selection.similarity import likeness_matrix
from moso.settings import Settings


class InfoMaxSettings(Settings):
    """Settings of `infomax`: the weight of similarity, and the solver."""

    neighbours: int = Field(5, ge=1, description="nearest samples whose likeness counts")
    weight: float = Field(0.3, ge=0, description="what likeness costs against scores from 0 to 1 (the paper's alpha)")
    iterations: int = Field(20, ge=1, description="steps of the solver")
    partition: int = Field(
        100_000, ge=2, description="samples solved at once; more are dealt into parts of at most this many"
    )


def infomax(problem: Problem, settings: InfoMaxSettings) -> NDArray[np.int64]:
    """Return `budget` positions with high scores and little redundancy."""
    scores = problem.finite_scores("infomax")
    low, width = scores.min(), np.ptp(scores)
    worth = (scores - low) / width if width > 0 else np.zeros(len(scores))
    kept = []
    for where, part in blocks(problem, settings.partition, "infomax"):
        likeness = likeness_matrix(part.rows_for("infomax"), settings.neighbours)
        gains = climb(worth[where], likeness, part.budget, settings.weight, settings.iterations)
        kept.append(where[np.argsort(-gains, kind="stable")[: part.budget]])
    return np.concatenate(kept)


def climb(
    worth: NDArray[np.float64], likeness: csr_array, budget: int, weight: float, iterations: int
) -> NDArray[np.float64]:
    """Solve the relaxed problem and return x before its last projection.

    Args:
        worth: Scores scaled to ``[0, 1]``, shape ``[samples]``.
        likeness: The sparse matrix K.
        budget: The sum of x.
        weight: Weight of similarity against scores.
        iterations: Number of proximal steps, at least 1.

    Returns:
        One float per sample, shape ``[samples]``; the largest are kept.
    """
    either_way = likeness + likeness.T
    x = np.full(len(worth), budget / len(worth))
    for _ in range(iterations):
        # Kept positive: multiplicative steps cannot leave 0, and a sample similar to many others would underflow to 0.
        raised = np.maximum(x * np.exp(worth - weight * (either_way @ x)), 1e-300)
        x = project(raised, budget)
    return np.asarray(raised)


def project(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Return the Kullback-Leibler projection min(1, c * values), with the c for which the sum is `total`.

    Args:
        values: Positive floats, shape ``[samples]``.
        total: The wanted sum, at most the number of samples.

    Example:
        >>> project(np.array([8.0, 1.0, 1.0]), 2)
        array([1. , 0.5, 0.5])
    """
    falling = np.sort(values)[::-1]
    # With the m largest at 1, the others share total - m in proportion. Take the smallest m for which they stay <= 1.
    full = np.arange(len(values))
    rest = np.cumsum(falling[::-1])[::-1]
    fits = (total - full) * falling <= rest * (1 + 1e-12)
    m = int(np.argmax(fits)) if fits.any() else len(values) - 1
    return np.asarray(np.minimum(1.0, values * ((total - m) / rest[m])))
