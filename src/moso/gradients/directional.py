"""`V . g_z` for every sample of a batch, by one of two routes.

Forward mode: one Jacobian-vector product of the losses along `V`, no backward pass. Where some operation has no forward
derivative, the ghost dot product: inside one backward pass, a call that is linear in its parameters contributes `b .
f(a; V)`, the same call with `V` in place of its parameters. Parameters without a closed form use the fallback.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode

from moso.batch import Batch
from moso.gradients.derived_tensors import PushedForward, pushed_forward
from moso.gradients.fallback import warn_once
from moso.gradients.identities import loss_weights
from moso.gradients.layers import Call, Place
from moso.gradients.layers.embedding import embedding
from moso.gradients.layers.operation import Arguments, Function, Positional
from moso.gradients.layers.recurrent import RECURRENT
from moso.gradients.losses import batch_length, wide
from moso.gradients.point import Point, Tensors
from moso.gradients.probe import first_samples
from moso.gradients.sweep import Kept, spread_out, watching_for
from moso.gradients.trust import TOLERANCE, Knowledge, trusted_plan
from moso.gradients.watching.folding import Fold, Folding, folded_values, folds_of

Route = Callable[[Any], torch.Tensor]
_FUSED = RECURRENT | {F.scaled_dot_product_attention, F.multi_head_attention_forward}


def route_for(point: Point, batch: Batch, direction: Tensors, known: Knowledge, compared: bool = True) -> Route:
    """Return the cheaper route that the network supports; log once if forward mode is not supported.

    Forward mode, except for networks with attention or recurrence: their fused kernels have no forward derivative, and
    neither do the norms around attention in a single pass. The ghost dot product uses the kernels of training.

    Args:
        point: The network.
        batch: Samples to find the route with, the first time.
        direction: `V`, by parameter name.
        known: What is known of the network; the route is stored in it.
        compared: Whether a sweep over the same samples has compared the closed forms with autograd.

    Returns:
        A function from a batch to `V . g_z`, shape ``[batch]``.
    """
    if known.route is None:
        known.route = _found_route(point, first_samples(batch), direction, known)
    if known.route == "backward":
        return lambda batch: backward_derivative(point, known, batch, direction, compared)
    forward = forward_route(point, direction, known.forward_folds)
    return lambda batch: forward(batch)[1]


def _found_route(point: Point, probe: Batch, direction: Tensors, known: Knowledge) -> Literal["forward", "backward"]:
    if _prefers_backward(point, probe) and known.plan.slow is None:
        return "backward"
    plain = forward_route(point, direction, {})
    try:
        expected = plain(probe)
    except Exception as problem:  # noqa: BLE001 - a user's network may raise anything under forward mode
        warn_once(f"{type(point.model).__name__}: no forward mode here, a backward pass takes its place ({problem})")
        return "backward"
    folds = folds_of(point, probe)
    if folds and _agree(forward_route(point, direction, folds), probe, expected):
        known.forward_folds = folds
    return "forward"


def _prefers_backward(point: Point, probe: Batch) -> bool:
    finding = _Fused()
    with finding, torch.no_grad():
        point.losses(point.trained, probe)
    return finding.seen


class _Fused(TorchFunctionMode):
    """Detects scaled dot products and recurrent networks."""

    seen = False

    def __torch_function__(
        self, func: Function, types: object, args: Positional = (), kwargs: Arguments | None = None
    ) -> Any:
        self.seen = self.seen or func in _FUSED
        return func(*args, **(kwargs or {}))


def _agree(folded: "Forward", probe: Batch, expected: tuple[torch.Tensor, torch.Tensor]) -> bool:
    """Return whether folding changes neither the losses nor their derivatives."""
    try:
        found = folded(probe)
    except RuntimeError:  # a network may depend on the memory format of its activations
        return False
    return all(
        float((one - other).abs().max()) <= TOLERANCE * float(one.abs().max())
        for one, other in zip(expected, found, strict=True)
    )


# Maps a batch to its losses and their derivatives, both ``[batch]``.
Forward = Callable[[Any], tuple[torch.Tensor, torch.Tensor]]


def forward_route(point: Point, direction: Tensors, folds: Mapping[str, Fold]) -> Forward:
    """Return forward mode along a direction, as a function from a batch to its losses and their derivatives.

    Args:
        point: The network.
        direction: `V`, by parameter name; missing parameters do not move.
        folds: Convolutions, by the name of their weight, with their batch-norm folded in.

    Example:
        >>> import torch
        >>> from moso.tasks import cross_entropy
        >>> model = torch.nn.Linear(2, 2)
        >>> direction = {"bias": torch.ones(2)}  # adding the same to all outputs changes no cross-entropy
        >>> route = forward_route(Point.of(model, cross_entropy), direction, {})
        >>> route((torch.eye(2), torch.tensor([0, 1])))[1].abs().max() < 1e-6
        tensor(True)
    """
    part = point.only(direction)
    own = {*part.trained, *part.fixed}
    given = part.trained, {name: value.to(part.trained[name]) for name, value in direction.items()}
    # Folded weights and their derivatives are computed once, not per batch.
    values, tangents = _jvp(lambda trained: {**trained, **folded_values(folds, {**part.fixed, **trained})}, *given)

    def losses(moved: Tensors, batch: Batch) -> torch.Tensor:
        with Folding(folds, moved) if folds else BaseTorchFunctionMode():
            return part.losses({name: value for name, value in moved.items() if name in own}, batch)

    def derivative(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        # The fused attention kernels have no forward derivative; the plain implementation has. While a function mode is
        # active, PyTorch's own attention modules avoid their fused paths, too.
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            both: tuple[torch.Tensor, torch.Tensor] = _jvp(lambda moved: losses(moved, batch), values, tangents)
        return both

    return derivative


def _jvp(function: Callable[[Tensors], object], values: Tensors, tangents: Tensors) -> Any:
    """Return the function's value and its derivative along the tangents."""
    return jvp(function, (values,), (tangents,))


def backward_derivative(
    point: Point, known: Knowledge, batch: Batch, direction: Tensors, compared: bool = True
) -> torch.Tensor:
    """Compute `V . g_z` by the ghost dot product, shape ``[batch]``.

    Args:
        point: The network.
        known: What is known of it; closed forms that were not compared with autograd are compared now.
        batch: The samples.
        direction: `V`, by parameter name.
        compared: Whether a sweep over this batch has compared the closed forms with autograd.
    """
    plan, count = known.plan, batch_length(batch)
    dots = [wide(torch.zeros(count, device=point.device))]
    leaves = {name: point.trained[name].detach().requires_grad_() for name in plan.routes.layouts}
    spread = spread_out(point, plan, count)
    moved: dict[Place, torch.Tensor] = {}

    def visit(call: Call, b: torch.Tensor) -> None:
        dots.append(wide(ghost_dot(call, b, lambda place: moved_along(place, direction, moved))))

    watching = watching_for(point, plan, batch, visit, leaves)
    with watching:
        losses = point.losses({**point.trained, **leaves, **spread}, batch)
    if not compared and known.uncompared(count)(watching.signature(), frozenset(watching.changing)):
        watching.visit = None
        trusted_plan(point, known, batch)
        return backward_derivative(point, known, batch, direction)
    moved.update({
        place: pushed_forward(place, leaves, direction) for place in watching.uses if place.tensor is not None
    })  # fmt: skip
    weights = loss_weights(count, 1, losses.detach())
    if losses.requires_grad:
        (losses * weights).sum().backward()  # type: ignore[no-untyped-call]
    watching.visit = None
    own = {name: leaf.grad for name, leaf in spread.items() if leaf.grad is not None}
    dots.append(_along(own, direction, count))
    found = torch.stack([dot.to(dots[0].device) for dot in dots]).sum(0) / wide(weights)
    if plan.slow is not None:
        pieces = [
            _along(part, direction, len(next(iter(part.values()))))
            for part in plan.slow(point.only(plan.others), batch)
        ]
        found = found + torch.cat(pieces).to(found.device)
    return found


def kept_derivative(kept: Kept, pushed: PushedForward) -> torch.Tensor:
    """Compute `V . g_z`, shape ``[batch]``, from the kept calls of a batch, without a pass through the network.

    Args:
        kept: The calls that a sweep has kept.
        pushed: The direction `V`, with its cache of Jacobian-vector products of derived tensors.
    """
    direction = pushed.direction
    if not kept.calls and not kept.formed:
        return _along(kept.slow, direction, len(kept.scales))
    derived = {place for call, _ in kept.calls for place in call.places.values() if place.tensor is not None}
    with torch.enable_grad():
        moved = {place: pushed(place, kept.leaves) for place in derived}
    total = wide(torch.zeros_like(kept.scales))
    with torch.no_grad():
        for call, b in kept.calls:
            total += wide(ghost_dot(call, b, lambda place: moved_along(place, direction, moved)))
    total = (total + _along(kept.formed, direction, len(total)).to(total.device)) * wide(kept.scales)
    return total + _along(kept.slow, direction, len(total)).to(total.device)


def moved_along(
    place: Place, direction: Mapping[str, torch.Tensor], moved: Mapping[Place, torch.Tensor]
) -> torch.Tensor | None:
    """Return the direction of a place: its parameter's, or the entry of `moved` for a derived tensor."""
    return direction.get(place.name) if place.tensor is None else moved[place]


def ghost_dot(call: Call, b: torch.Tensor, moved: Callable[[Place], torch.Tensor | None]) -> torch.Tensor:
    """Compute `b . f(a; V)` per sample, ``[batch]``: the part of `V . g_z` that belongs to this call.

    Args:
        call: The call.
        b: The gradient of its output.
        moved: Returns the direction of each of the call's places; None where the place does not move.
    """
    own: Arguments = {}
    for role in call.operation.roles:
        given = call.given.get(role)
        value = moved(call.places[role]) if role in call.places else None
        if value is not None:
            own[role] = value.to(call.a if given is None else given)
        elif given is not None:
            own[role] = torch.zeros_like(given)
    if call.operation is embedding and call.given.get("padding_idx") is not None:
        # The padding row is looked up like any other row, but has no gradient.
        own["weight"] = own["weight"].clone()
        own["weight"][call.given["padding_idx"]] = 0
    if call.a.is_floating_point() and own:
        # Under autocast the arguments of a call have several dtypes; the call itself cast them to one.
        kind = torch.promote_types(call.a.dtype, next(iter(own.values())).dtype)
        if call.a.dtype != kind:
            call = replace(call, given={**call.given, "input": call.a.to(kind)})
    products = call.operation.along(call, b, own)
    products = products.real if products.is_complex() else products
    if products.ndim > 2:  # summed before the reshape, which would copy a channels-last tensor
        products = products.sum(tuple(range(2, products.ndim)))
    return call.by_sample(products, 0).sum(1)


def _along(gradients: Tensors, direction: Mapping[str, torch.Tensor], count: int) -> torch.Tensor:
    total = torch.zeros(count, dtype=torch.float64)
    for name, gradient in gradients.items():
        if name in direction:
            total = total.to(gradient.device if gradient.device.type != "mps" else "cpu")
            flat, along = gradient.flatten(1), direction[name].flatten()
            if flat.dtype in (torch.float32, torch.float64):
                total += wide(flat @ along.to(flat))
            else:
                total += wide(flat) @ wide(along)
    return total
