"""The truth: plain autograd on batches of one, and the formula to the letter."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from benchmarks.scoring.engines.engine import Scores, one_at_a_time
from benchmarks.scoring.problem import Batches, Problem
from moso.gradients import Loss


@dataclass(frozen=True)
class Truth:
    """`a_t(z)` and `G . g_z` of every sample, `[samples]`."""

    score: Scores
    product: Scores


def brute_force(model: nn.Module, loss: Loss, batches: Batches) -> Truth:
    """`grad L(S\\z) . g_z` with `grad L(S\\z)` the mean of all the others' gradients, and `G . g_z`."""
    singles = one_at_a_time(batches)
    total = gradient_of_one(model, loss, singles[0]).clone()
    for single in singles[1:]:
        total += gradient_of_one(model, loss, single)
    N = len(singles)
    score, product = np.zeros(N), np.zeros(N)
    for z, single in enumerate(singles):
        own = gradient_of_one(model, loss, single)
        score[z] = float(((total - own) / (N - 1)) @ own)
        product[z] = float((total / N) @ own)
    return Truth(score, product)


def gradient_of_one(model: nn.Module, loss: Loss, single: object) -> torch.Tensor:
    """The gradient of one sample's loss, all parameters in a row."""
    parts = torch.autograd.grad(loss(model, single).sum(), list(model.parameters()))
    return torch.cat([part.flatten() for part in parts])


def truth_of(problem: Problem, count: int) -> Truth:
    """The truth about the first `count` samples, in float64."""
    exact = problem.double()
    return brute_force(exact.model, exact.loss, exact.batches(count))
