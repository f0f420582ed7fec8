"""The engine's verbs: directional derivatives, squared norms, and a time step in two sweeps.

The first sweep over the data adds up the mean gradient `G` and takes `|g_z|^2` of every sample on the way; the second
takes `G . g_z` in forward mode. No gradient of a sample outlives the layer it was formed for.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from moso.columns import Growing
from moso.errors import MosoError
from moso.gradients.directional import Route, route_for
from moso.gradients.fitting import Fitting, TooLargeError
from moso.gradients.losses import batch_length, wide
from moso.gradients.plan import Plan, Routes
from moso.gradients.point import Batches, Groups, Point, Tensors, through
from moso.gradients.probe import PROBES, plan_for
from moso.gradients.sweep import Swept, sweep_batch


@dataclass(frozen=True)
class TimeStep:
    """Everything a time step needs: `G`, and two scalars a sample and group of parameters, `[groups, samples]`."""

    mean_gradient: Tensors
    dot: NDArray[np.float64]
    squared_norm: NDArray[np.float64]


def time_step(point: Point, batches: Batches, groups: Groups = ()) -> TimeStep:
    """One time step in two sweeps over the data; without `groups` there is one group of all parameters.

    >>> from moso.gradients.losses import cross_entropy
    >>> model = torch.nn.Linear(2, 2)
    >>> step = time_step(Point.of(model, cross_entropy), lambda: [(torch.eye(2), torch.tensor([0, 1]))])
    >>> step.dot.shape, step.squared_norm.shape
    ((1, 2), (1, 2))
    """
    groups = point.checked_groups(groups)
    mean, norms, plan = first_sweep(point, batches, groups)
    return TimeStep(mean, directional_derivatives(point, batches, mean, groups, plan), norms)


def squared_norms(point: Point, batches: Batches, groups: Groups = ()) -> NDArray[np.float64]:
    """`|g_z|^2` for every sample and group of parameters, `[groups, samples]`."""
    return first_sweep(point, batches, point.checked_groups(groups))[1]


def directional_derivatives(
    point: Point, batches: Batches, direction: Tensors, groups: Groups = (), plan: Plan | None = None
) -> NDArray[np.float64]:
    """`V . g_z` for every sample and group of parameters, `[groups, samples]`; `V` is any `direction`.

    A first sweep at the same point has a `plan` already, and saves trying again.
    """
    groups = point.checked_groups(groups)
    rows = Growing(len(groups))
    routes: list[Route] = []
    fitting = Fitting()

    def derivatives(piece: Any) -> torch.Tensor:
        return torch.stack([wide(route(piece)) for route in routes]).cpu()

    for batch in through(point, batches):
        if not routes:
            parts = [{name: direction[name] for name in group} for group in groups]
            routes = [route_for(point, batch, part, plan) for part in parts]
        for part in fitting.pieces(batch, derivatives):
            rows.add(part.numpy())
    return rows.done()


def first_sweep(point: Point, batches: Batches, groups: Groups) -> tuple[Tensors, NDArray[np.float64], Plan]:
    """`G`, `|g_z|^2` of every sample and group of parameters, and how they were found, in one sweep over the data."""
    total, norms, plan = _sums(point, batches, groups)
    return mean_of(point, total, norms.shape[1]), norms, plan


def gradient_sums(point: Point, batches: Batches, groups: Groups = ()) -> tuple[Tensors, NDArray[np.float64]]:
    """The sum of all samples' gradients, and `|g_z|^2` of each, `[groups, samples]`: what one shard gives to a mean."""
    return _sums(point, batches, point.checked_groups(groups))[:2]


def _sums(point: Point, batches: Batches, groups: Groups) -> tuple[Tensors, NDArray[np.float64], Plan]:
    fitting = Fitting()
    while True:
        try:
            return _swept(point, batches, groups, fitting)
        except TooLargeError:
            # What an unfinished batch has added to the sums cannot be taken back: from the start, in smaller pieces.
            continue


def _swept(
    point: Point, batches: Batches, groups: Groups, fitting: Fitting
) -> tuple[Tensors, NDArray[np.float64], Plan]:
    total: Tensors = {}
    rows = Growing(len(groups))
    plan, tried = Plan(Routes()), 0
    for batch in through(point, batches):
        if tried < min(PROBES, batch_length(batch)):  # a first batch of one sample shows too little
            plan, tried = plan_for(point, batch), min(PROBES, batch_length(batch))
        total = total or _zeros(point)
        for piece in fitting.parts(batch):
            with fitting.refusing(piece):
                swept = sweep_batch(point, plan, piece, total)
            rows.add(torch.stack([_norms(swept, group) for group in groups]).cpu().numpy())
    return total, rows.done(), plan


def _norms(swept: Swept, group: tuple[str, ...]) -> torch.Tensor:
    total = wide(torch.zeros_like(next(iter(swept.norms.values()))))
    for name in group:
        total += wide(swept.norms[name])
    return total


def _zeros(point: Point) -> Tensors:
    """What sums begin with: at least float32. In float64 they would take more memory than a training step does."""
    return {
        name: torch.zeros_like(value, dtype=torch.promote_types(value.dtype, torch.float32))
        for name, value in point.trained.items()
    }


def mean_of(point: Point, total: Tensors, count: int) -> Tensors:
    """The mean gradient from a sum over `count` samples, in the parameters' own precision; the sum is used up."""
    if count == 0:
        raise MosoError("there is no sample to take the mean gradient of")
    return {name: (total.pop(name) / count).to(value) for name, value in point.trained.items()}
