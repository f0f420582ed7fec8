"""Sketches: per-sample gradients projected to a few thousand numbers, whose inner products are unbiased.

One forward and one backward pass that carries gradients from layer to layer but never forms the gradient of a large
parameter: each call's input and output gradient are projected (`projection.py`) and only then multiplied. Products of
sketches are unbiased products of gradients, also of a sketch with itself. With the mean sketch in place of `G`, one
sweep over the data thus gives both terms of a time step:

    E[s_z . mean s] = G . g_z        E[|s_z|^2] = |g_z|^2

`mean s` contains the sample's own share `|s_z|^2 / N`, and leaving the sample out subtracts exactly that share: the
score's `(N dot - |s_z|^2) / (N - 1)` is the mean of `s_z . s_j` over the other samples, without the error in `|s_z|^2`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np
import torch

from moso import errors
from moso.batch import Batch
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

T = TypeVar("T")


class OfGradients(Protocol):
    """Projects the gradients of one parameter."""

    def of_gradients(self, gradients: torch.Tensor) -> torch.Tensor:
        """Project gradients ``[samples, *shape]`` to ``[samples, size]``."""


# Numbers per sketch; the error of a product is proportional to one over their square root.
NUMBERS = 4096
# Samples per pass on a CPU: activations should still be in the processor's cache when they are projected.
PIECE = 64


def sketches(point: Point, batches: Batches, *, numbers: int = NUMBERS, seed: int = 0) -> torch.Tensor:
    """Compute the sketch of every per-sample gradient.

    Args:
        point: The network.
        batches: Returns an iterable over the batches.
        numbers: Largest size of a sketch.
        seed: Seed of the projections.

    Returns:
        Sketches ``[samples, d]`` in float32, with ``d <= numbers``; their inner products are unbiased.

    Raises:
        DataEmpty: There is no sample.
        SettingInvalid: `numbers` is smaller than the number of parameters.

    Example:
        >>> from moso.tasks import cross_entropy
        >>> point = Point.of(torch.nn.Linear(100, 10), cross_entropy)
        >>> sketches(point, lambda: [(torch.ones(3, 100), torch.tensor([0, 1, 2]))], numbers=64).shape
        torch.Size([3, 60])
    """
    names = list(point.trained)
    parts = _swept(point, batches, projections_of(point, numbers, seed))
    return torch.cat([torch.cat([part[name] for name in names], 1) for part in parts])


def sketched_time_step(
    point: Point, batches: Batches, groups: Groups = (), *, numbers: int = NUMBERS, seed: int = 0
) -> TimeStep:
    """Estimate both terms of a time step in one sweep over the data; there is no mean gradient.

    The sketches are kept until their mean is known: four times `numbers` bytes per sample.

    Args:
        point: The network.
        batches: Returns an iterable over the batches.
        groups: Parameter names per group.
        numbers: Largest size of a sketch.
        seed: Seed of the projections.

    Raises:
        DataEmpty: There is no sample.
        SettingInvalid: `numbers` is smaller than the number of parameters.

    Example:
        >>> from moso.tasks import cross_entropy
        >>> batches = lambda: [(torch.eye(2), torch.tensor([0, 1]))]
        >>> sketched_time_step(Point.of(torch.nn.Linear(2, 2), cross_entropy), batches).dot.shape
        (1, 2)
    """
    groups = point.checked_groups(groups)
    parts = _swept(point, batches, projections_of(point, numbers, seed))
    count = sum(len(next(iter(part.values()))) for part in parts)
    terms = np.zeros((2, len(groups), count))
    for number, group in enumerate(groups):
        for name in group:
            own = [part[name].double() for part in parts]
            mean = torch.stack([part.sum(0) for part in own]).sum(0) / count
            terms[0, number] += torch.cat([part @ mean for part in own]).numpy()
            terms[1, number] += torch.cat([part.square().sum(1) for part in own]).numpy()
    return TimeStep({}, terms[0], terms[1])


def projections_of(point: Point, numbers: int, seed: int) -> dict[str, Projection]:
    """Return the projection of every parameter, `numbers` numbers in all at most.

    Raises:
        SettingInvalid: `numbers` is smaller than the number of parameters.
    """
    if numbers < len(point.trained):
        raise errors.SettingInvalid(
            f"a sketch of {numbers} numbers is too small for {len(point.trained)} parameters; it needs one each"
        )
    given = shares({name: value.numel() for name, value in point.trained.items()}, numbers)
    return {name: Projection.draw(value, given[name], seed, name) for name, value in point.trained.items()}


def swept_pieces(point: Point, batches: Batches, look: Callable[[Plan, Batch], T]) -> Iterator[T]:
    """Yield what `look` returns of every piece of every batch, in the order of samples; pieces fit memory."""
    fitting = Fitting()
    if point.device.type == "cpu":
        fitting.most = PIECE
    with evaluation_mode(point.model):
        for batch in batches():
            batch = to_device(batch, point.device)
            plan = ensure(point, knowledge_of(point, batch), batch)
            yield from fitting.pieces(batch, lambda piece: look(plan, piece))  # noqa: B023


def _swept(point: Point, batches: Batches, projections: Mapping[str, Projection]) -> list[Tensors]:
    """Return the sketches ``[some, size]`` by parameter, on the CPU, a few samples at a time."""
    found = list(swept_pieces(point, batches, lambda plan, piece: _sketched(point, plan, projections, piece)))
    if not found:
        raise errors.DataEmpty("there is no sample to take a sketch of")
    return found


def _sketched(point: Point, plan: Plan, projections: Mapping[str, Projection], batch: Batch) -> Tensors:
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
    """Yield what one call adds to the sketches ``[batch, size]`` of its parameters, with their names.

    Args:
        call: The call.
        b: The gradient of its output.
        projections: The projection of each parameter.
        leaves: The parameters as leaves of derived tensors' autograd graphs.
    """
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
    if rest:
        yield from formed_parts(replace(call, places=rest), b, projections, leaves)


def formed_parts(
    call: Call, b: torch.Tensor, projections: Mapping[str, OfGradients], leaves: Tensors
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what one call adds to the sketches of its parameters, with their names, by forming per-sample gradients.

    Only as many gradients exist at one time as fit a processor's cache.
    """
    a, b = call.operation.split(call, b)
    for role, place in call.places.items():
        parts: dict[str, list[torch.Tensor]] = {name: [] for name in place.names}
        for part in chunks(call.given[role].numel(), len(b)):
            each = call.operation.each(call, a[part], b[part])
            own = next(gradients for name, gradients in each if name == role)
            for name, back in back_to_parameters(place, own, leaves):
                parts[name].append(projections[name].of_gradients(back))
        yield from ((name, torch.cat(found)) for name, found in parts.items() if found)


def _factored(call: Call, b: torch.Tensor, projection: Projection, rows: Rows | None) -> torch.Tensor | None:
    """Return the weight's sketch, ``[batch, size]``, from projected factors; None if the operation has no factors."""
    if call.operation is convolution:
        return _convolved(call, b, projection)
    if call.operation is linear:
        a, b = call.operation.split(call, b)
        return (projection.rows_of(b, rows).mT @ projection.columns_of(a)).flatten(1)
    if call.operation is embedding:
        a, b = call.operation.split(call, b)
        # The input is a row index, which stands for a one-hot vector.
        table = torch.eye(projection.shape[0]).to(b) if projection.left is None else projection.left.T
        return (table[a].mT @ projection.columns_of(b)).flatten(1)
    return None


def _convolved(call: Call, b: torch.Tensor, projection: Projection) -> torch.Tensor | None:
    """Convolve sums of channels, each shifted by one offset of the kernel, in place of all patches."""
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
    """Compute `sum b x_hat` and `sum b` per sample, ``[batch, channels]``."""
    positions = tuple(range(2, b.ndim))
    products, bias = call.a * b, b
    if positions:  # summed before a reshape, which could copy, depending on the memory format
        products, bias = products.sum(positions), b.sum(positions)
    mean, variance = call.given["running_mean"], call.given["running_var"]
    weight = (products - mean * bias) * torch.rsqrt(variance + call.given.get("eps", 1e-5))
    return {"weight": call.by_sample(weight, 1).sum(1), "bias": call.by_sample(bias, 1).sum(1)}
