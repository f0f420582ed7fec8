"""Measure the metric of a task per sample."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.data.views import View, load, split_evenly
from moso.gradients import evaluation_mode, to_device
from moso.tasks import Metric


@torch.no_grad()
def measured(
    model: nn.Module,
    view: View,
    positions: NDArray[np.int64],
    metric: Metric,
    batch_size: int = 512,
    loader_workers: int = 0,
) -> NDArray[np.float64]:
    """Compute the metric of every sample, with the model in evaluation mode.

    Args:
        model: The network; its mode is restored afterwards.
        view: The data.
        positions: Positions of the samples in the view.
        metric: The task's metric.
        batch_size: Samples per batch.
        loader_workers: Processes that load data; 0 loads in this process.

    Returns:
        One float64 per sample, shape ``[positions]``.

    Raises:
        ExtensionBroken: The metric did not return one number per sample.

    Example:
        >>> from moso.data.views import as_view
        >>> from moso.tasks.classification import accuracy
        >>> view = as_view((np.eye(2), [0, 1]))
        >>> model = nn.Linear(2, 2, bias=False)
        >>> _ = nn.init.eye_(model.weight)
        >>> measured(model, view, np.arange(2), accuracy())
        array([1., 1.])
    """
    device = next(model.parameters()).device
    values = []
    with evaluation_mode(model):
        for batch in load(view, split_evenly(positions, batch_size), 0, loader_workers):
            values.append(metric.per_sample(model, to_device(batch, device)).double().cpu())
    found = torch.cat(values).numpy()
    if found.shape != positions.shape:
        raise errors.ExtensionBroken(
            f"metric {metric.measure.name!r} must give one number per sample, not {found.shape}"
        )
    return np.asarray(found)
