"""Gradients of single samples where there is no closed form: a chunk at a time if `vmap` can, else one by one."""

import logging
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch.func import grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from moso.gradients.losses import batch_length, map_tensors, one_of, part_of
from moso.gradients.point import Point, Tensors

# Gradients of single samples that exist at one time.
CHUNK_BYTES = 256 * 2**20
_log = logging.getLogger(__name__)

Slow = Callable[[Any], Iterator[Tensors]]


def gradients_of_one(point: Point, one: Any) -> tuple[torch.Tensor, Tensors]:
    """Losses `[1]` and gradients of a batch of one by plain autograd: what every other way is measured against."""
    leaves = {name: value.detach().requires_grad_() for name, value in point.trained.items()}
    losses = point.losses(leaves, one)
    gradients = {name: torch.zeros_like(value) for name, value in point.trained.items()}
    if losses.requires_grad:  # a sample may be one that these parameters do not touch
        parts = torch.autograd.grad(losses.sum(), list(leaves.values()), allow_unused=True)
        gradients.update({name: part for name, part in zip(leaves, parts, strict=True) if part is not None})
    return losses.detach(), gradients


def slow_route(point: Point, probe: Any) -> Slow:
    """From a batch to the gradients `[some, *shape]` of its samples, a few samples at a time; announced once."""
    per_sample = sum(value.numel() * value.element_size() for value in point.trained.values())
    chunk = max(1, CHUNK_BYTES // per_sample)

    def one_by_one(batch: Any) -> Iterator[Tensors]:
        for number in range(batch_length(batch)):
            _, gradients = gradients_of_one(point, one_of(batch, number))
            yield {name: gradient[None] for name, gradient in gradients.items()}

    def chunked(batch: Any) -> Iterator[Tensors]:
        for start in range(0, batch_length(batch), chunk):
            part = part_of(batch, start, min(start + chunk, batch_length(batch)))
            with sdpa_kernel(SDPBackend.MATH):  # the fused kernels of attention know no vmap
                yield together(point.trained, part)

    def loss_of_one(trained: Tensors, one: Any) -> torch.Tensor:
        return point.losses(trained, map_tensors(lambda tensor: tensor[None], one)).sum()

    together = vmap(grad(loss_of_one), in_dims=(None, 0))
    network, some = type(point.model).__name__, next(iter(point.trained))
    try:
        next(chunked(probe))
    except Exception as problem:  # noqa: BLE001 - a user's network may raise anything under vmap
        announce(f"{network}: gradients of {some} are taken one sample at a time, which is slow ({problem})")
        return one_by_one
    announce(f"{network}: {len(point.trained)} parameters, {some} among them, have no closed form and cost more")
    return chunked


@cache
def announce(message: str) -> None:
    """Say something once in the life of the process."""
    _log.warning(message.splitlines()[0])
