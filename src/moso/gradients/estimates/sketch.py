"""Sketches: gradients of single samples in a few thousand numbers, whose products are right on average.

One forward and one backward pass that carries gradients from layer to layer but never forms one by a large parameter:
each call's input and output gradient are projected (`projection.py`) and only then multiplied. Products of sketches
are unbiased products of gradients, also of a sketch with itself; so with the mean sketch in place of `G` one sweep over
the data gives both terms of a time step:

    E[s_z . mean s] = G . g_z        E[|s_z|^2] = |g_z|^2

`mean s` holds the sample's own share `|s_z|^2 / N`, and leaving the sample out takes exactly that off again: the
score's `(N dot - |s_z|^2) / (N - 1)` is the mean of `s_z . s_j` over the others, free of the error in `|s_z|^2`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from moso import errors
from moso.gradients.derived_tensors import back_to_parameters
from moso.gradients.engine import TimeStep
from moso.gradients.estimates.projection import Projection, shares
from moso.gradients.fitting import Fitting
from moso.gradients.layers import Call, Rows
from moso.gradients.layers.convolution import convolution
from moso.gradients.layers.embedding import embedding
from moso.gradients.layers.linear import linear
from moso.gradients.layers.normalisation import batch_norm
from moso.gradients.layers.operation import chunks
from moso.gradients.losses import batch_length, to_device
from moso.gradients.plan import Plan
from moso.gradients.point import Batches, Groups, Point, Tensors, evaluation_mode
from moso.gradients.sweep import spread_out, watching_for
from moso.gradients.trust import ensure, knowledge_of

# Numbers kept of a sample; the error of a product goes with one over their square root.
NUMBERS = 4096
# Samples at a time on a CPU: what is projected was just computed, and should still be in its caches.
PIECE = 64


def sketches(point: Point, batches: Batches, *, numbers: int = NUMBERS, seed: int = 0) -> torch.Tensor:
    """The sketch of every sample's gradient, `[samples, d]` float32 with `d <= numbers`; products are unbiased.

    >>> from moso.tasks import cross_entropy
    >>> point = Point.of(torch.nn.Linear(100, 10), cross_entropy)
    >>> sketches(point, lambda: [(torch.ones(3, 100), torch.tensor([0, 1, 2]))], numbers=64).shape
    torch.Size([3, 60])
    """
    names = list(point.trained)
    parts = list(_swept(point, batches, _projections(point, numbers, seed)))
    if not parts:
        raise errors.DataEmpty("there is no sample to take a sketch of")
    return torch.cat([torch.cat([part[name] for name in names], 1) for part in parts])


def sketched_time_step(
    point: Point, batches: Batches, groups: Groups = (), *, numbers: int = NUMBERS, seed: int = 0
) -> TimeStep:
    """A time step from one sweep over the data; its two terms are estimates, and there is no mean gradient.

    Keeps the sketches until their mean is known, four times `numbers` bytes per sample.

    >>> from moso.tasks import cross_entropy
    >>> batches = lambda: [(torch.eye(2), torch.tensor([0, 1]))]
    >>> sketched_time_step(Point.of(torch.nn.Linear(2, 2), cross_entropy), batches).dot.shape
    (1, 2)
    """
    groups = point.checked_groups(groups)
    projections = _projections(point, numbers, seed)
    parts = list(_swept(point, batches, projections))
    if not parts:
        raise errors.DataEmpty("there is no sample to take a sketch of")
    count = sum(len(next(iter(part.values()))) for part in parts)
    terms = np.zeros((2, len(groups), count))
    for number, group in enumerate(groups):
        for name in group:
            own = [part[name].double() for part in parts]
            mean = torch.stack([part.sum(0) for part in own]).sum(0) / count
            terms[0, number] += torch.cat([part @ mean for part in own]).numpy()
            terms[1, number] += torch.cat([part.square().sum(1) for part in own]).numpy()
    return TimeStep({}, terms[0], terms[1])


def _projections(point: Point, numbers: int, seed: int) -> dict[str, Projection]:
    if numbers < len(point.trained):
        raise errors.SettingInvalid(
            f"a sketch of {numbers} numbers is too small for {len(point.trained)} parameters; it needs one each"
        )
    given = shares({name: value.numel() for name, value in point.trained.items()}, numbers)
    return {name: Projection.draw(value, given[name], seed, name) for name, value in point.trained.items()}


def _swept(point: Point, batches: Batches, projections: Mapping[str, Projection]) -> Iterator[Tensors]:
    """The sketches `[some, size]` of each parameter, on the CPU, a few samples at a time."""
    fitting = Fitting()
    if point.device.type == "cpu":
        fitting.most = PIECE
    with evaluation_mode(point.model):
        for batch in batches():
            batch = to_device(batch, point.device)
            plan = ensure(point, knowledge_of(point, batch), batch)
            yield from fitting.pieces(batch, lambda piece: _sketched(point, plan, projections, piece))  # noqa: B023


def _sketched(point: Point, plan: Plan, projections: Mapping[str, Projection], batch: Any) -> Tensors:
    count = batch_length(batch)
    found = {name: value.new_zeros(count, projections[name].size) for name, value in point.trained.items()}
    leaves = {name: point.trained[name].detach().requires_grad_() for name in plan.routes.layouts}
    spread = spread_out(point, plan, count)

    def visit(call: Call, b: torch.Tensor) -> None:
        for name, part in sketch_call(call, b, projections, leaves):
            found[name] += part

    with watching_for(point, plan, batch, visit, leaves):
        losses = point.losses({**point.trained, **leaves, **spread}, batch)
    if losses.requires_grad:
        losses.sum().backward()  # type: ignore[no-untyped-call]
    for name, leaf in spread.items():
        if leaf.grad is not None:
            found[name] = projections[name].of_gradients(leaf.grad)
    if plan.slow is not None:
        start = 0
        for gradients in plan.slow(point.only(plan.others), batch):
            for name, own in gradients.items():
                found[name][start : start + len(own)] = projections[name].of_gradients(own)
            start += len(own)
    return {name: part.to("cpu", torch.float32) for name, part in found.items()}


def sketch_call(
    call: Call, b: torch.Tensor, projections: Mapping[str, Projection], leaves: Tensors
) -> Iterator[tuple[str, torch.Tensor]]:
    """What one call adds to the sketches `[batch, size]` of its parameters, by name."""
    rest = dict(call.places)
    weight = rest.get("weight")
    if weight is not None and (weight.tensor is None or weight.rows is not None):
        product = _factored(call, b, projections[weight.name], weight.rows)
        if product is not None:
            yield weight.name, product
            del rest["weight"]
    if call.operation is batch_norm and all(place.tensor is None for place in rest.values()):
        for role, own in _batch_normalised(call, b).items():
            if role in rest:
                yield rest[role].name, projections[rest[role].name].of_gradients(own)
        return
    if not rest:
        return
    formed, (a, b) = replace(call, places=rest), call.operation.split(call, b)
    for role, place in rest.items():
        parts: dict[str, list[torch.Tensor]] = {name: [] for name in place.names}
        for part in chunks(call.given[role].numel(), len(b)):
            each = formed.operation.each(formed, a[part], b[part])
            own = next(gradients for name, gradients in each if name == role)
            for name, back in back_to_parameters(place, own, leaves):
                parts[name].append(projections[name].of_gradients(back))
        yield from ((name, torch.cat(found)) for name, found in parts.items() if found)


def _factored(call: Call, b: torch.Tensor, projection: Projection, rows: Rows | None) -> torch.Tensor | None:
    """The weight's part of the sketch, `[batch, size]`, from projected factors, where the operation has them."""
    if call.operation is convolution:
        return _convolved(call, b, projection)
    if call.operation is linear:
        a, b = call.operation.split(call, b)
        return (projection.rows_of(b, rows).mT @ projection.columns_of(a)).flatten(1)
    if call.operation is embedding:
        a, b = call.operation.split(call, b)
        # What comes in is a row's number, as if the input were one there and zero elsewhere.
        table = torch.eye(projection.shape[0]).to(b) if projection.left is None else projection.left.T
        return (table[a].mT @ projection.columns_of(b)).flatten(1)
    return None


def _convolved(call: Call, b: torch.Tensor, projection: Projection) -> torch.Tensor | None:
    """A convolution over sums of channels, each shifted by one offset of the kernel, in place of all patches."""
    plain = call.layout == "first" and call.given.get("groups", 1) == 1
    if projection.right is None or projection.shifts is None or not plain:
        return None
    image, count = call.a, len(projection.right)
    mixed = (projection.right @ image.flatten(2)).view(len(image), count, *image.shape[2:])
    kernels = projection.shifts.view(count, 1, *projection.shape[2:])
    seen = call.again(input=mixed, weight=kernels, bias=None, groups=count).flatten(2)
    own = b.flatten(2) if projection.left is None else projection.left @ b.flatten(2)
    return (own @ seen.mT).view(call.batch, -1, projection.size).sum(1)


def _batch_normalised(call: Call, b: torch.Tensor) -> Tensors:
    """`sum b x_hat` and `sum b` of every sample, `[batch, channels]`."""
    positions = tuple(range(2, b.ndim))
    products, bias = call.a * b, b
    if positions:  # summed where they lie, whichever dimension is last in memory
        products, bias = products.sum(positions), b.sum(positions)
    mean, variance = call.given["running_mean"], call.given["running_var"]
    weight = (products - mean * bias) * torch.rsqrt(variance + call.given.get("eps", 1e-5))
    return {"weight": call.by_sample(weight, 1).sum(1), "bias": call.by_sample(bias, 1).sum(1)}
