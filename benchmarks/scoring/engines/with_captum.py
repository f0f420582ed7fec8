"""captum's TracInCP: the influence of a sample on all of the data, minus its influence on itself.

`(N - 1) a_t(z)` is one minus the other. captum differentiates a batch's losses one at a time, each through the whole
batch's graph, so batches of one are its cheapest. (Its shortcut for batches knows linear layers and convolutions only.)
"""

import warnings
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.scoring.engines.engine import Scores
from benchmarks.scoring.problem import Batches
from moso.gradients import Loss


class LossOfTensors(nn.Module):
    """A model and its loss as one function of tensors, which is what captum knows how to call."""

    def __init__(self, model: nn.Module, loss: Loss, structure: Any) -> None:
        super().__init__()
        self.model, self.loss, self.structure = model, loss, structure

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        """Losses `[batch]`."""
        return self.loss(self.model, tree_unflatten(tensors, self.structure))


def with_captum(model: nn.Module, loss: Loss, batches: Batches) -> Scores:
    """`a_t(z)` of every sample."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # captum warns about its own hooks
        from captum.influence import TracInCP

        flat = [tree_flatten(batch) for batch in batches]
        columns = [torch.cat(parts) for parts in zip(*(tensors for tensors, _ in flat), strict=True)]
        count = len(columns[0])
        # The last column would be labels for a loss of captum's; here the loss is part of the network.
        data = DataLoader(TensorDataset(*columns, torch.zeros(count)), batch_size=1)
        tracin = TracInCP(
            LossOfTensors(model, loss, flat[0][1]),
            data,
            ["the only checkpoint"],
            checkpoints_load_func=lambda *_: 1.0,
            loss_fn=None,
        )
        on_all = tracin.influence(data, aggregate=True)[0]
        on_itself = tracin.self_influence()
    return np.asarray(((on_all.double() - on_itself.double()) / (count - 1)).cpu().numpy())
