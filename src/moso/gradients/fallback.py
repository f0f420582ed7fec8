"""Per-sample gradients without a closed form: in chunks where `vmap` supports the network, else one by one."""

import logging
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
from torch.func import grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from moso import errors
from moso.batch import Batch
from moso.gradients.losses import batch_length, map_tensors, one_of, part_of
from moso.gradients.point import Point, Tensors

# Bytes of per-sample gradients that exist at one time.
CHUNK_BYTES = 256 * 2**20
_log = logging.getLogger(__name__)

# Maps a network at any moment of its training, and a batch, to per-sample gradients, a chunk of samples at a time.
Slow = Callable[[Point, Any], Iterator[Tensors]]


def gradients_of_one(point: Point, one: Batch) -> tuple[torch.Tensor, Tensors]:
    """Return losses ``[batch]`` and summed gradients of a batch by plain autograd: the reference for all else."""
    leaves = {name: value.detach().requires_grad_() for name, value in point.trained.items()}
    losses = point.losses(leaves, one)
    gradients = {name: torch.zeros_like(value) for name, value in point.trained.items()}
    if losses.requires_grad:  # these parameters may have no part in the sample's loss
        parts = torch.autograd.grad(losses.sum(), list(leaves.values()), allow_unused=True)
        gradients.update({name: part for name, part in zip(leaves, parts, strict=True) if part is not None})
    return losses.detach(), gradients


def slow_route(point: Point, probe: Batch) -> Slow:
    """Return a function that yields per-sample gradients, ``[some, *shape]``, in chunks; log once that it is slower.

    The route is chosen at one moment of training and is valid for all: the point is an argument of the route.

    Args:
        point: The network, restricted to the parameters without closed forms.
        probe: A few samples to test the routes with.

    Raises:
        NotDeterministic: With no route do the per-sample gradients add up to the gradient of their batch.
    """
    network, some = type(point.model).__name__, next(iter(point.trained))
    whole = _gradients_of_sum(point, probe)
    reasons = []
    for route in (_chunked, partial(_one_by_one, copies=1), partial(_one_by_one, copies=2)):
        try:
            if _adds_up(route, point, probe, whole):
                break
        except Exception as problem:  # noqa: BLE001 - a user's network may raise anything under vmap
            reasons.append(problem)
    else:
        if reasons and len(reasons) == 3:
            raise reasons[-1]
        raise errors.NotDeterministic(
            f"the gradients of {some} by single samples do not add up to those of their batch: something in {network} "
            "is random in evaluation mode, or treats a batch otherwise than its samples"
        )
    if reasons:
        warn_once(f"{network}: gradients of {some} are taken one sample at a time, which is slow ({reasons[0]})")
    else:
        count = len(point.trained)
        who = f"{some} has" if count == 1 else f"{count} parameters, {some} among them, have"
        warn_once(f"{network}: {who} no closed form here, at a higher cost")
    return route


def vmap_route(point: Point, probe: Batch) -> Slow | None:
    """Return the route by `vmap`, or None if it raises or its gradients do not add up."""
    whole = _gradients_of_sum(point, probe)
    try:
        return _chunked if _adds_up(_chunked, point, probe, whole) else None
    except Exception:  # noqa: BLE001 - a user's network may raise anything under vmap; other routes remain
        return None


def formed_route(point: Point, probe: Batch) -> Slow:
    """Return a route that forms the gradients of all parameters: by `vmap` where it works, else one by one."""
    return vmap_route(point, probe) or partial(_one_by_one, copies=1)


def _one_by_one(point: Point, batch: Batch, copies: int) -> Iterator[Tensors]:
    """Yield gradients sample by sample, in batches of one sample or of two copies of it.

    On the CPU, PyTorch's batch-norm in evaluation mode returns a wrong gradient for a batch of one in channels-last
    memory format; with two copies the gradient is right.
    """
    for number in range(batch_length(batch)):
        one = one_of(batch, number)
        if copies > 1:
            one = map_tensors(lambda tensor: torch.cat([tensor] * copies), one)
        _, gradients = gradients_of_one(point, one)
        yield {name: gradient[None] / copies for name, gradient in gradients.items()}


def _chunked(point: Point, batch: Batch) -> Iterator[Tensors]:
    """Yield gradients of a chunk of samples at a time, by `vmap`."""
    per_sample = sum(value.numel() * value.element_size() for value in point.trained.values())
    chunk = max(1, CHUNK_BYTES // per_sample)

    def loss_of_one(trained: Tensors, one: Batch) -> torch.Tensor:
        return point.losses(trained, map_tensors(lambda tensor: tensor[None], one)).sum()

    together = vmap(grad(loss_of_one), in_dims=(None, 0))
    for start in range(0, batch_length(batch), chunk):
        part = part_of(batch, start, min(start + chunk, batch_length(batch)))
        with sdpa_kernel(SDPBackend.MATH):  # the fused attention kernels have no vmap rule
            yield together(point.trained, part)


def _gradients_of_sum(point: Point, batch: Batch) -> Tensors:
    return gradients_of_one(point, batch)[1]


def _adds_up(route: Slow, point: Point, probe: Batch, whole: Tensors) -> bool:
    """Return whether the per-sample gradients add up to the gradient of their batch, up to rounding."""
    total = {name: torch.zeros_like(value) for name, value in whole.items()}
    squared = dict.fromkeys(whole, 0.0)
    for gradients in route(point, probe):
        for name, own in gradients.items():
            total[name] += own.sum(0)
            squared[name] += float(own.square().sum())
    largest = max(squared.values(), default=0.0) ** 0.5
    return all(
        float((total[name] - whole[name]).norm()) <= 1e-2 * squared[name] ** 0.5 + 1e-5 * largest for name in whole
    )


@cache
def warn_once(message: str) -> None:
    """Log a warning once per process."""
    _log.warning(message.splitlines()[0])
