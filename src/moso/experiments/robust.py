"""MoSo for heavy label noise: a robust estimate replaces the mean gradient.

The paper's stated limitation: `G` is the mean of all gradients, and wrong labels bias it. The samples of a partition
are divided into random blocks by (seed, step, key). The mean gradient of each block is an independent estimate of `G`;
for each parameter, the highest and lowest fifth of the blocks are left out (a trimmed mean over random blocks):

    G_robust = trimmed mean over blocks of (1/|B| sum_{z in B} g_z)        a(z) = G_robust . g_z

The contribution of a single sample to a trimmed mean cannot be subtracted, so there is no leave-one-out correction.
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
    """Return the mean over the first dimension without the highest and lowest values, for each entry.

    Args:
        values: Shape ``[blocks, ...]``.
        trimmed: Share that is left out at each end, in ``[0, 0.5)``.

    Example:
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
    """Compute the terms of one time step along the robust mean gradient.

    Args:
        model: The network, whose state `point` replaces.
        point: The time step.
        view: The data.
        positions: Positions of the partition's samples.
        seed: Seed of the blocks.
        loss: Loss per sample.
        blocks: Number of random blocks.
        trimmed: Share of blocks that is left out at each end.

    Returns:
        The terms; the squared norms are zero, because the score does not use them.
    """
    at, batches = prepared(model, point, view, positions, loss, None, None, 0)
    order = positions[np.argsort(hashes(positions.astype(np.uint64), seed, "robust-blocks", point.step))]
    means: list[Tensors] = []
    for block in np.array_split(order, min(blocks, len(order))):
        means.append(mean_gradient(at, lambda block=block: batches(block)))  # type: ignore[misc]
    direction = {name: trimmed_mean(torch.stack([mean[name] for mean in means]), trimmed) for name in at.trained}
    dot = directional_derivatives(at, lambda: batches(positions), direction, point.groups)
    return checked(StepTerms(point.step, point.learning_rates, dot, np.zeros_like(dot), False), positions)
