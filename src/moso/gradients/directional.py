"""`V . g_z` for every sample of a batch, by one of two routes.

Forward mode: one derivative of the losses along `V`, no backward pass. Where some operation has no forward derivative,
the ghost dot product: a layer that is linear in its parameters contributes `b . f(a; V)`, its own forward pass with `V`
in place of its parameters, inside one backward pass; parameters without a closed form go the slow way.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from moso.gradients.losses import wide
from moso.gradients.point import Point, Tensors
from moso.gradients.sweep import Plan, Site, announce, first_samples, plan_for, watching

Route = Callable[[Any, Tensors], torch.Tensor]


def route_for(point: Point, batch: Any, direction: Tensors) -> Route:
    """Forward mode if the network has a forward derivative everywhere, else the ghost dot product, announced once."""
    probe = first_samples(batch)
    try:
        forward_derivative(point, probe, direction)
    except (RuntimeError, ValueError, NotImplementedError) as problem:
        announce(f"{type(point.model).__name__}: no forward mode here, a backward pass takes its place ({problem})")
        plan = plan_for(point, batch)
        return lambda batch, direction: backward_derivative(point, plan, batch, direction)
    return lambda batch, direction: forward_derivative(point, batch, direction)


def forward_derivative(point: Point, batch: Any, direction: Tensors) -> torch.Tensor:
    """The derivatives `[batch]` of the losses along `direction`, which may leave parameters out.

    >>> import torch
    >>> from moso.gradients.losses import cross_entropy
    >>> model = torch.nn.Linear(2, 2)
    >>> direction = {"bias": torch.ones(2)}  # adding the same to all outputs changes no cross-entropy
    >>> point = Point.of(model, cross_entropy)
    >>> forward_derivative(point, (torch.eye(2), torch.tensor([0, 1])), direction).abs().max() < 1e-6
    tensor(True)
    """
    part = point.only(direction)
    tangents = {name: value.to(part.trained[name]) for name, value in direction.items()}

    def losses(trained: Tensors) -> torch.Tensor:
        return part.losses(trained, batch)

    # The fused kernels of attention have no forward derivative; the plain mathematics has.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        derivative: torch.Tensor = jvp(losses, (part.trained,), (tangents,))[1]
    return derivative


def backward_derivative(point: Point, plan: Plan, batch: Any, direction: Tensors) -> torch.Tensor:
    """The same by the ghost dot product."""
    dots: list[torch.Tensor] = []

    def visit(site: Site, a: torch.Tensor, b: torch.Tensor, buffers: Tensors) -> None:
        own = {
            name: direction[site.parameter(name)].to(value)
            if site.parameter(name) in direction
            else torch.zeros_like(value)
            for name, value in site.module.named_parameters(recurse=False)
        }
        if isinstance(site.module, nn.Embedding) and site.module.padding_idx is not None:
            # The padding row is looked up like any other, but has no gradient.
            own["weight"] = own["weight"].clone()
            own["weight"][site.module.padding_idx] = 0
        dots.append(wide((functional_call(site.module, {**own, **buffers}, (a,)) * b).flatten(1).sum(1)))

    if plan.sites:
        with watching(plan, visit):
            point.losses(point.trained, batch).sum().backward()  # type: ignore[no-untyped-call]
    if plan.slow is not None:
        dots.append(torch.cat([_along(gradients, direction) for gradients in plan.slow(batch)]))
    return torch.stack(dots).sum(0)


def _along(gradients: Tensors, direction: Tensors) -> torch.Tensor:
    total = wide(torch.zeros_like(next(iter(gradients.values())).flatten(1)[:, 0]))
    for name, gradient in gradients.items():
        if name in direction:
            total += wide(gradient.flatten(1)) @ wide(direction[name]).flatten()
    return total
