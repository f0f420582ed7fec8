"""`badge`: keep samples whose gradients are large and differ from each other (BADGE).

Believes that a sample is worth keeping if the network is unsure of it (its gradient is large) and if no kept sample
moves the network in the same direction. With y' the predicted class and g_z the gradient of -log p_{y'} (of the last
layer, at the end of training), the first sample is the one with the largest |g_z|, and every further one is drawn as
the next centre of k-means++:

    P(z) = D_z^2 / sum_z' D_z'^2,   D_z = min over kept samples j of |g_z - g_j|

The predicted class stands in for the label, as in the source, which chooses samples to be labelled; labels are not
used. When all samples left are twins of kept ones, those with the lowest ids are taken. `first = "random"` begins as
k-means++ does, with any sample. Draws are addressed by (seed, step).

O(N k (C + D)) for k kept samples, C classes and D features. Above `block` samples the data is divided at random into
blocks, which are drawn from separately with their share of the budget: O(N block (C + D)) time, 8 block^2 bytes up to
4096 samples per block, and beyond one row of distances at a time.

Source: Ash et al., Deep Batch Active Learning by Diverse, Uncertain Gradient Lower Bounds, ICLR 2020, Algorithm 1; the
first sample by norm is that of the authors' code.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.randomness import uniforms
from moso.selection.blocks import KEPT, blocks
from moso.selection.classes import ClassSettings, per_class
from moso.selection.problem import Problem
from moso.selection.selectors.by_gradient.factored_gradients import FactoredGradients, gradients_of


class BadgeSettings(ClassSettings):
    """Settings of `badge`: together or class by class, the first sample, and the block size."""

    first: Literal["longest", "random"] = Field(
        "longest", description="the first sample: the largest gradient (the authors' code), or any (k-means++)"
    )
    block: int = Field(
        KEPT, ge=2, description="samples drawn from at once; more are dealt into blocks of at most this many"
    )


def badge(problem: Problem, settings: BadgeSettings) -> NDArray[np.int64]:
    """Return `budget` positions with large and different gradients."""

    def draw(part: Problem) -> NDArray[np.int64]:
        return np.concatenate([where[_drawn(one, settings)] for where, one in blocks(part, settings.block, "badge")])

    return per_class(problem, "badge", settings.classes, draw)


def _drawn(problem: Problem, settings: BadgeSettings) -> NDArray[np.int64]:
    # One draw per step; the first sample's key tells blocks apart.
    draws = uniforms(np.arange(problem.budget, dtype=np.uint64), problem.seed, "badge", int(problem.keys[0]))
    return plus_plus(gradients_of(problem, "badge", "predicted"), draws, settings.first)


def plus_plus(
    gradients: FactoredGradients, draws: NDArray[np.float64], first: Literal["longest", "random"] = "longest"
) -> NDArray[np.int64]:
    """Draw the centres of k-means++ among gradients.

    Args:
        gradients: The gradients.
        draws: One uniform number in ``[0, 1)`` per centre; with `first` "longest", that of the first is not used.
        first: How the first centre is chosen.

    Returns:
        Positions of the centres in the order of drawing, none twice, shape ``[draws]``.

    Example:
        >>> errors, inputs = np.array([[1.0], [1.0], [1.0]]), np.array([[5.0], [0.0], [1.0]])
        >>> plus_plus(FactoredGradients(errors, inputs), np.array([0.5, 0.7])).tolist()
        [0, 2]
    """
    norms, count = gradients.squared_norms, len(gradients)
    cached = gradients.gram() if count <= KEPT else None
    centres, squared = np.empty(len(draws), dtype=np.int64), np.ones(count)
    left = np.ones(count, dtype=bool)
    for step, draw in enumerate(draws.tolist()):
        centre = int(np.argmax(norms)) if step == 0 and first == "longest" else _draw(squared, left, draw)
        centres[step], left[centre] = centre, False
        row = cached[centre] if cached is not None else gradients.products(slice(centre, centre + 1))[0]
        both = norms + norms[centre]
        new = both - 2 * row
        new[(new <= 1e-13 * both) | ~left] = 0  # twins by rounding errors, and what is taken
        squared = np.minimum(squared, new) if step else new
    return centres


def _draw(squared: NDArray[np.float64], left: NDArray[np.bool_], draw: float) -> int:
    """Return a position drawn in proportion to `squared`; the first that is left if all are 0."""
    total = np.cumsum(squared)
    if not total[-1] > 0:
        return int(np.argmax(left))
    found = int(np.searchsorted(total, draw * total[-1], side="right"))
    return min(found, int(np.flatnonzero(squared)[-1]))
