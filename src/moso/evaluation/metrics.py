"""What a retrained network is judged by: one number a sample of the test, whose mean is reported.

Accuracy where there are classes, R² where numbers are predicted by squared error, the mean loss of the test samples for
any other loss of the user's, or a metric of the user's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.data.views import View, load, split_evenly
from moso.evaluation.summary import ACCURACY, LOSS, R_SQUARED, Measure
from moso.gradients import Loss, evaluation_mode, to_device
from moso.training.default_losses import like

# The same seam as a loss: `(model, batch) -> [batch]`.
PerSample = Callable[[nn.Module, Any], torch.Tensor]


@dataclass(frozen=True)
class Metric:
    """A measure, and the number that it takes of every sample."""

    measure: Measure
    per_sample: PerSample


def accuracy() -> Metric:
    """Whether the class with the highest output is the label."""

    def right(model: nn.Module, batch: Any) -> torch.Tensor:
        inputs, labels = batch
        correct: torch.Tensor = model(inputs).argmax(1) == labels
        return correct

    return Metric(ACCURACY, right)


def r_squared(targets: NDArray[Any]) -> Metric:
    """The share of the test targets' variance that is explained, the mean over all numbers of a sample.

    `targets: [n]` or `[n, numbers]` are those of the whole test, in the units that batches have them in. The mean over
    samples of `1 - error^2 / variance` is R².
    """
    variance = torch.as_tensor(np.asarray(targets, dtype=np.float64).var(axis=0))
    if (variance <= 0).any():
        raise errors.NothingToMeasure(
            f"all {len(targets)} test targets are equal, so there is nothing to explain and no R²"
        )

    def explained(model: nn.Module, batch: Any) -> torch.Tensor:
        inputs, answers = batch
        residuals = like(model(inputs), answers).cpu().double() - answers.cpu().double()
        shares: torch.Tensor = 1 - residuals.square() / variance
        return shares if shares.ndim == 1 else shares.flatten(1).mean(1)

    return Metric(R_SQUARED, explained)


def mean_loss(loss: Loss) -> Metric:
    """The user's own loss."""
    return Metric(LOSS, loss)


def own_metric(per_sample: PerSample) -> Metric:
    """The user's own metric, from 0 to 1, reported in %; higher is better."""
    return Metric(Measure(getattr(per_sample, "__name__", type(per_sample).__name__)), per_sample)


@torch.no_grad()
def measured(
    model: nn.Module,
    view: View,
    positions: NDArray[np.int64],
    metric: Metric,
    batch_size: int = 512,
    loader_workers: int = 0,
) -> NDArray[np.float64]:
    """The metric of every sample, `[positions]`, in evaluation mode.

    >>> from moso.data.views import as_view
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
        raise errors.ExtensionBroken(f"metric {metric.measure.name!r} must give one number a sample, not {found.shape}")
    return np.asarray(found)
