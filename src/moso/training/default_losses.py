"""The losses that training and scoring use where the user brings none."""

from typing import Any

import torch
from torch import nn

from moso import errors
from moso.data.samples import Samples
from moso.gradients import Loss, cross_entropy


def squared_error(model: nn.Module, batch: Any) -> torch.Tensor:
    """The loss for numbers: `batch` is `(inputs, targets)`, the result one mean squared error a sample, `[batch]`.

    >>> squared_error(nn.Linear(2, 1), (torch.zeros(4, 2), torch.zeros(4))).shape
    torch.Size([4])
    """
    inputs, targets = batch
    squares: torch.Tensor = (like(model(inputs), targets) - targets).square()
    return squares if squares.ndim == 1 else squares.flatten(1).mean(1)


def like(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Outputs in the shape of targets: a network with one output gives `[batch, 1]` where targets are `[batch]`."""
    if outputs.numel() != targets.numel():
        raise errors.ModelUnsuitable(
            f"the network gives {tuple(outputs.shape)} for targets of shape {tuple(targets.shape)}; "
            "there must be one output a number to predict"
        )
    return outputs.reshape(targets.shape)


def loss_for(samples: Samples) -> Loss:
    """Cross-entropy where there are classes, squared error where there are numbers to predict."""
    return cross_entropy if samples.targets is None else squared_error
