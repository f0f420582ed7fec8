"""MoSo where noise dominates: the mean gradient replaced by one that outliers cannot pull.

The paper's stated limit: `G` is the mean of all gradients, and wrong labels pull it. The samples of a partition are
dealt into random blocks by (seed, step, key); the mean gradient of each block is an independent look at `G`, and the
highest and lowest fifth of the blocks are left out, parameter by parameter (a trimmed mean over random blocks):

    G_robust = trimmed mean over blocks of (1/|B| sum_{z in B} g_z)        a(z) = G_robust . g_z

No sample has a share of its own in it that could be taken out, so there is no leave-one-out correction.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso.data.views import View
from moso.evidence import StepTerms, TrajectoryPoint
from moso.evidence.measure import checked, prepared
from moso.gradients import (
    Loss,
    cross_entropy,
    directional_derivatives,
    mean_gradient,
)
from moso.gradients.point import Tensors
from moso.randomness import hashes

BLOCKS = 20
TRIMMED = 0.2


def trimmed_mean(values: torch.Tensor, trimmed: float = TRIMMED) -> torch.Tensor:
    """The mean over the first dimension without its highest and lowest share, entry by entry.

    >>> trimmed_mean(torch.tensor([[1.0], [2.0], [3.0], [4.0], [1000.0]]))
    tensor([3.])
    """
    cut = int(trimmed * len(values))
    ordered = values.sort(dim=0).values
    return ordered[cut : len(values) - cut].mean(dim=0)


def robust_terms(
    model: nn.Module,
    point: TrajectoryPoint,
    view: View,
    positions: NDArray[np.int64],
    *,
    seed: int,
    loss: Loss = cross_entropy,
    blocks: int = BLOCKS,
    trimmed: float = TRIMMED,
) -> StepTerms:
    """The terms of one time step along the robust mean; squared norms, which are of no use then, are zero."""
    at, batches = prepared(model, point, view, positions, loss, None, None, 0)
    order = positions[np.argsort(hashes(positions.astype(np.uint64), seed, "robust-blocks", point.step))]
    means: list[Tensors] = []
    for block in np.array_split(order, min(blocks, len(order))):
        means.append(mean_gradient(at, lambda block=block: batches(block)))  # type: ignore[misc]
    direction = {name: trimmed_mean(torch.stack([mean[name] for mean in means]), trimmed) for name in at.trained}
    dot = directional_derivatives(at, lambda: batches(positions), direction, point.groups)
    return checked(StepTerms(point.step, point.learning_rates, dot, np.zeros_like(dot), False), positions)
