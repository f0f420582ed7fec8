"""`V . g_z` for every sample of a batch, by one of two routes.

Forward mode: one derivative of the losses along `V`, no backward pass. Where some operation has no forward derivative,
the ghost dot product: a call that is linear in its parameters contributes `b . f(a; V)`, the same call with `V`
in place of its parameters, inside one backward pass; parameters without a closed form go the slow way.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode

from moso.gradients.calls import Watching
from moso.gradients.folding import Fold, Folding, folded_values, folds_of
from moso.gradients.layers import Call
from moso.gradients.losses import batch_length, wide
from moso.gradients.plan import Plan
from moso.gradients.point import Point, Tensors
from moso.gradients.probe import TOLERANCE, first_samples, plan_for
from moso.gradients.slow import announce

Route = Callable[[Any], torch.Tensor]


def route_for(point: Point, batch: Any, direction: Tensors, plan: Plan | None = None) -> Route:
    """The cheaper route that the network allows; where forward mode is refused, that is announced once.

    Forward mode, except for networks with attention: its fused kernel has no forward derivative, nor have the
    norms around it one in a single pass, and the ghost dot product does with the kernels that training uses.
    """
    probe = first_samples(batch)
    plain = forward_route(point, direction, {})
    if _attends(point, probe):
        plan = plan or plan_for(point, batch)
        if plan.slow is None:
            return _backward_route(point, plan, direction)
    try:
        expected = plain(probe)
    except (RuntimeError, ValueError, NotImplementedError) as problem:
        announce(f"{type(point.model).__name__}: no forward mode here, a backward pass takes its place ({problem})")
        return _backward_route(point, plan or plan_for(point, batch), direction)
    folds = folds_of(point, probe)
    folded = forward_route(point, direction, folds) if folds else plain
    return (lambda batch: folded(batch)[1]) if _agree(folded, probe, expected) else (lambda batch: plain(batch)[1])


def _backward_route(point: Point, plan: Plan, direction: Tensors) -> Route:
    return lambda batch: backward_derivative(point, plan, batch, direction)


def _attends(point: Point, probe: Any) -> bool:
    finding = _Attention()
    with finding, torch.no_grad():
        point.losses(point.trained, probe)
    return finding.seen


class _Attention(TorchFunctionMode):
    """Watches for scaled dot products."""

    seen = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.seen = self.seen or func in (F.scaled_dot_product_attention, F.multi_head_attention_forward)
        return func(*args, **(kwargs or {}))


def _agree(folded: "Forward", probe: Any, expected: tuple[torch.Tensor, torch.Tensor]) -> bool:
    """Whether folding changes neither the losses nor their derivatives."""
    try:
        found = folded(probe)
    except RuntimeError:  # a network may rely on the layout of its activations in memory
        return False
    return all(
        float((one - other).abs().max()) <= TOLERANCE * float(one.abs().max())
        for one, other in zip(expected, found, strict=True)
    )


# From a batch to its losses and their derivatives, both `[batch]`.
Forward = Callable[[Any], tuple[torch.Tensor, torch.Tensor]]


def forward_route(point: Point, direction: Tensors, folds: Mapping[str, Fold]) -> Forward:
    """Forward mode along a `direction`, which may leave parameters out.

    >>> import torch
    >>> from moso.gradients.losses import cross_entropy
    >>> model = torch.nn.Linear(2, 2)
    >>> direction = {"bias": torch.ones(2)}  # adding the same to all outputs changes no cross-entropy
    >>> route = forward_route(Point.of(model, cross_entropy), direction, {})
    >>> route((torch.eye(2), torch.tensor([0, 1])))[1].abs().max() < 1e-6
    tensor(True)
    """
    part = point.only(direction)
    own = {*part.trained, *part.fixed}
    given = part.trained, {name: value.to(part.trained[name]) for name, value in direction.items()}
    # What is folded is folded once, with its derivative, and not for every batch again.
    values, tangents = _jvp(lambda trained: {**trained, **folded_values(folds, {**part.fixed, **trained})}, *given)

    def losses(moved: Tensors, batch: Any) -> torch.Tensor:
        with Folding(folds, moved) if folds else BaseTorchFunctionMode():
            return part.losses({name: value for name, value in moved.items() if name in own}, batch)

    def derivative(batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        # The fused kernels of attention have no forward derivative; the plain mathematics has. While functions are
        # watched, PyTorch's own attention modules keep off their fused paths too.
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            both: tuple[torch.Tensor, torch.Tensor] = _jvp(lambda moved: losses(moved, batch), values, tangents)
        return both

    return derivative


def _jvp(function: Callable[[Tensors], Any], values: Tensors, tangents: Tensors) -> Any:
    """The function's value and its derivative along the tangents."""
    return jvp(function, (values,), (tangents,))


def backward_derivative(point: Point, plan: Plan, batch: Any, direction: Tensors) -> torch.Tensor:
    """The same by the ghost dot product."""
    count = batch_length(batch)
    dots = [wide(torch.zeros(count, device=point.device))]
    fixed = {name: point.trained[name] for name in plan.routes.layouts}
    spread = {
        name: point.trained[name].view(shape).expand(count, *shape[1:]).clone().requires_grad_()
        for name, shape in plan.routes.spread.items()
    }
    with Watching(fixed, count, plan.routes.layouts, lambda call, b: dots.append(wide(ghost_dot(call, b, direction)))):
        losses = point.losses({**point.trained, **spread}, batch)
    if losses.requires_grad:
        losses.sum().backward()  # type: ignore[no-untyped-call]
    own = {name: leaf.grad for name, leaf in spread.items() if leaf.grad is not None}
    dots.append(_along(own, direction, count))
    if plan.slow is not None:
        pieces = [_along(part, direction, len(next(iter(part.values())))) for part in plan.slow(batch)]
        dots.append(torch.cat(pieces))
    return torch.stack([dot.to(dots[0].device) for dot in dots]).sum(0)


def ghost_dot(call: Call, b: torch.Tensor, direction: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """`b . f(a; V)` of every sample, `[batch]`: the part of `V . g_z` that belongs to this call."""
    own: dict[str, Any] = {}
    for role in ("weight", "bias"):
        given = call.given.get(role)
        if given is not None:
            place = call.places.get(role)
            value = None if place is None else direction.get(place.name)
            own[role] = torch.zeros_like(given) if value is None else value.to(given)
            if value is not None and place is not None and place.rows is not None:
                own[role] = own[role][slice(*place.rows)]
    if call.given.get("padding_idx") is not None:
        # The padding row is looked up like any other, but has no gradient.
        own["weight"] = own["weight"].clone()
        own["weight"][call.given["padding_idx"]] = 0
    products = call.again(**own) * b
    if products.ndim > 2:  # summed where they lie: channels may be last in memory, and a reshape would copy
        products = products.sum(tuple(range(2, products.ndim)))
    return call.by_sample(products, 0).sum(1)


def _along(gradients: Tensors, direction: Tensors, count: int) -> torch.Tensor:
    total = torch.zeros(count, dtype=torch.float64)
    for name, gradient in gradients.items():
        if name in direction:
            total = total.to(gradient.device if gradient.device.type != "mps" else "cpu")
            total += wide(gradient.flatten(1)) @ wide(direction[name]).flatten()
    return total
