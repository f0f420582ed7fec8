"""The end of training, where the way back begins: derivatives of a risk by everything that it reads of the state."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from moso.adjoint.running_statistics import RunningStatistics
from moso.adjoint.state import TrainingState, differentiable
from moso.gradients import Loss, evaluation_mode
from moso.gradients.point import Tensors
from moso.gradients.risk import Asked, Risk, risk_parts


def risk_gradients(
    model: nn.Module, state: TrainingState, risk: Risk, loss: Loss, rows: NDArray[np.float64] | None = None
) -> list[tuple[Tensors, Tensors]]:
    """The derivatives of a risk by the parameters and by the buffers of a state, batch-norm's statistics among them.

    For a `SampleRisk`, `rows: [risks, positions]` are the weights of several risks of the same samples; without them
    there is one, the risk itself.
    """
    leaves = {name: value.detach().clone().requires_grad_() for name, value in state.trained.items()}
    buffers = {name: value.detach().clone() for name, value in state.buffers.items()}
    moving = {name: value.requires_grad_() for name, value in differentiable(buffers).items()}
    sources = {**leaves, **moving}
    values = {f"model.{name}": value for name, value in {**buffers, **leaves}.items()}
    count = 1 if rows is None else len(rows)
    totals = [{name: torch.zeros_like(value) for name, value in sources.items()} for _ in range(count)]
    with evaluation_mode(model):
        for part in risk_parts(risk, loss, rows, next(iter(leaves.values())).device):
            with sdpa_kernel(SDPBackend.MATH), RunningStatistics():
                numbers = functional_call(Asked(model, part), values, ())
            for row, total in enumerate(totals):
                found = torch.autograd.grad(
                    numbers[row], list(sources.values()), retain_graph=row < count - 1, allow_unused=True
                )
                for name, value in zip(sources, found, strict=True):
                    if value is not None:
                        total[name] += value
    return [({name: total[name] for name in leaves}, {name: total[name] for name in moving}) for total in totals]
