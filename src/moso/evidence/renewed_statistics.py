"""Batch-norm's running statistics recomputed for the fixed weights of a time step.

During training, running statistics lag behind the weights, and they describe augmented samples. A gradient taken
through them on samples without augmentation mostly points to where the mismatch would shrink, and hides the effect of
the label (docs/view.md has the measurement).
"""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from moso.data.views import View, load, split_evenly
from moso.evidence.trajectory import TrajectoryPoint
from moso.gradients import Loss, cross_entropy, to_device
from moso.models.freezing import is_held


def renewed_statistics(
    model: nn.Module,
    point: TrajectoryPoint,
    view: View,
    positions: NDArray[np.int64],
    *,
    batch_size: int,
    loss: Loss = cross_entropy,
    loader_workers: int = 0,
) -> TrajectoryPoint:
    """Return the point with running statistics that are plain means over batches of its own samples.

    Only batch-norm layers run in training mode. A network without batch-norm gets the same point back. `model` is not
    changed.

    Args:
        model: The network, whose architecture is used.
        point: The time step.
        view: Samples, as the network is to meet them.
        positions: Positions of the samples to average over.
        batch_size: Samples per batch.
        loss: Loss that calls the network on a batch.
        loader_workers: Processes that load batches ahead.

    Example:
        >>> from moso.data.views import as_view
        >>> model, view = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)), as_view((np.eye(2, dtype="f") * 4, [0, 1]))
        >>> point = TrajectoryPoint(1, (0.1,), memory=model.state_dict())
        >>> renewed_statistics(model, point, view, np.arange(2), batch_size=2).state()["0.running_mean"].tolist()
        [2.0, 2.0]
    """
    if not _norms(model):
        return point
    twin = deepcopy(model).eval()
    point.load_into(twin)
    for norm in _norms(twin):
        norm.reset_running_stats()
        norm.momentum = None
        norm.train()
    device = next(twin.parameters()).device
    with torch.no_grad():
        for batch in load(view, split_evenly(positions, batch_size), point.epoch, loader_workers):
            loss(twin, to_device(batch, device))
    return replace(point, path=None, memory={name: value.detach() for name, value in twin.state_dict().items()})


def _norms(model: nn.Module) -> list[_BatchNorm]:
    """Return the batch-norm layers whose statistics follow training; frozen ones keep those they came with."""
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
    return [norm for norm in norms if not is_held(norm)]
