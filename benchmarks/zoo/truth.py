"""The truth: MoSo's formula to the letter, one sample at a time, in float64, without any code of moso's.

    M(z) = (T/N) (1/K) sum_k eta_k (N (G_k . g_k(z)) - |g_k(z)|^2) / (N - 1)

`g_k(z)` is what `torch.autograd.grad` gives for this one sample at checkpoint `k`, in evaluation mode, and `G_k` the
mean over all samples. The sample's batch holds it twice: for a batch of one whose channels are last in memory,
PyTorch's batch-norm in evaluation mode takes a wrong gradient on the CPU (central differences tell; seen with timm's
LeViT).
"""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.zoo.problem import Checkpoint, Problem


def true_scores(problem: Problem, checkpoints: Sequence[Checkpoint], total_steps: int) -> NDArray[np.float64]:
    """`M(z)` of every sample, `[samples]`; the problem and the checkpoints are in float64."""
    N, K, T = len(problem.items), len(checkpoints), total_steps
    total = np.zeros(N)
    for state, rate in checkpoints:
        gradients = gradients_of_all(problem, state)
        mean = gradients.mean(0)
        for z, own in enumerate(gradients):
            total[z] += rate * float(N * (mean @ own) - own @ own) / (N - 1)
    return T / N / K * total


def gradients_of_all(problem: Problem, state: dict[str, torch.Tensor]) -> torch.Tensor:
    """Every sample's own gradient, all trained parameters in a row, `[samples, numbers]`."""
    model = deepcopy(problem.model)
    model.load_state_dict(state)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rows = []
    for item in problem.items:
        # Layers that cache in evaluation mode (timm's LeViT) drop what they cached of another graph.
        model.train().eval()
        losses = problem.loss(model, problem.collate([item, item]))
        assert losses.shape == (2,)
        rows.append(flat_gradient(losses[0], trained))
    return torch.stack(rows)


def flat_gradient(loss: torch.Tensor, trained: Sequence[nn.Parameter]) -> torch.Tensor:
    """The gradient of one loss in a row of real numbers; zero where the loss does not depend on a parameter."""
    if not loss.requires_grad:
        return torch.cat([real_row(torch.zeros_like(parameter)) for parameter in trained])
    parts = torch.autograd.grad(loss, list(trained), allow_unused=True)
    return torch.cat(
        [
            real_row(torch.zeros_like(parameter) if part is None else part)
            for parameter, part in zip(trained, parts, strict=True)
        ]
    )


def real_row(gradient: torch.Tensor) -> torch.Tensor:
    """A gradient in a row; a complex parameter is trained as the two real ones that it consists of."""
    return (torch.view_as_real(gradient) if gradient.is_complex() else gradient).detach().reshape(-1)
