"""Samples that float32 can tell on which side of every rectifier's kink they are.

The derivative of a rectifier jumps where its input is zero. An input that is zero to float32's precision has the one
derivative or the other by chance: the score of such a sample is not determined in float32, whoever computes it (seen:
differences of 2e-3 of the largest score, for every engine alike). They would say nothing about an engine, so the
samples that come closest to a kink are left out before anything is measured.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from benchmarks.scoring.problem import Problem
from moso.gradients import map_tensors


def clear_of_kinks(problem: Problem, count: int) -> Problem:
    """The problem with those `count` of its samples, in order, that keep farthest from all kinks."""
    kept = torch.sort(margins(problem).argsort(descending=True, stable=True)[:count]).values
    return replace(problem, samples=map_tensors(lambda tensor: tensor[kept], problem.samples))


def margins(problem: Problem) -> torch.Tensor:
    """How close each sample comes to a kink, `[samples]`: a rectifier's smallest input against its layer's typical.

    An input that is exactly zero is so in any precision, and does not count.
    """
    exact, smallest = problem.double(), torch.full((problem.size,), torch.inf, dtype=torch.float64)
    begin = 0

    def look(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        values = inputs[0].abs().flatten(1)
        closest = values.masked_fill(values == 0, torch.inf).min(1).values / values.square().mean().sqrt()
        own = slice(begin, begin + len(values))
        smallest[own] = torch.minimum(smallest[own], closest.cpu())

    handles = [
        module.register_forward_pre_hook(look) for module in exact.model.modules() if isinstance(module, nn.ReLU)
    ]
    if not handles:
        return smallest
    with torch.no_grad():
        for batch in exact.batches():
            begin += len(exact.loss(exact.model, batch))
    return smallest
