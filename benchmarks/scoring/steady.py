"""Samples at which the network has a gradient, in float32.

Where a rectifier's input is nothing but rounding, the gradient is one thing on its left and another on its right, and
which of the two an engine takes depends on the order in which it adds. Both are right, so neither can be an error.
"""

from copy import deepcopy
from dataclasses import replace

import torch

from benchmarks.scoring.engines.brute_force import gradient_of_one
from benchmarks.scoring.engines.engine import one_at_a_time
from benchmarks.scoring.problem import Problem
from moso.gradients import map_tensors
from moso.randomness import generator

# Parameters are moved by this share of themselves, a few roundings, and a gradient by no more than that.
MOVED, TOLERANCE = 1e-6, 3e-5


def steady_first(problem: Problem, count: int) -> tuple[Problem, int]:
    """The same with `count` samples first whose gradient does not jump, and how many before them were passed over.

    Samples that jump come last, so all engines are timed on all samples. Where too few are steady, all stay in place.
    """
    exact = problem.double()
    moved = [deepcopy(exact.model), deepcopy(exact.model)]
    for name, value in exact.model.named_parameters():
        signs = torch.from_numpy(generator("benchmark", "moved", name).choice([-MOVED, MOVED], value.shape))
        for model, side in zip(moved, (1, -1), strict=True):
            model.get_parameter(name).data *= 1 + side * signs.to(value)
    steady: list[int] = []
    jumping: list[int] = []
    for place, single in enumerate(one_at_a_time(exact.batches())):
        left, right = (gradient_of_one(model, exact.loss, single) for model in moved)
        (steady if float((left - right).norm()) <= TOLERANCE * float(left.norm()) else jumping).append(place)
        if len(steady) == count:
            break
    else:
        return problem, 0
    rest = [place for place in range(problem.size) if place not in {*steady, *jumping}]
    order = torch.tensor([*steady, *rest, *jumping])
    samples = map_tensors(lambda tensor: tensor[order.to(tensor.device)], problem.samples)
    return replace(problem, samples=samples), len(jumping)
