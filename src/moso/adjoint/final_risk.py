"""The derivative of a risk with respect to the final state of a run, where the reverse sweep begins."""

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
    """Compute the derivatives of risks with respect to the parameters and the floating-point buffers of a state.

    Args:
        model: The network; only its architecture is used.
        state: The state to differentiate at.
        risk: The risk.
        loss: Returns one loss per sample.
        rows: For a `SampleRisk`, weights of several risks of the same samples, shape ``[risks, positions]``; None for
            the risk alone.

    Returns:
        Per risk, the derivatives by parameter name and by buffer name (batch-norm's running statistics).
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
