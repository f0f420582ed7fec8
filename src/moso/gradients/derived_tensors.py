"""Derived tensors: computed from parameters alone (weight norm, DoRA, a transposed weight).

A per-sample gradient with respect to a derived tensor goes back to the parameters by a vector-Jacobian product, one
batch at a time. A direction goes forward by a Jacobian-vector product, once for all batches of a time step that derive
the same tensor. Rejected: collecting gradients of many batches for one product. The product is memory-bound, and a
batch of 32 is what fits a processor's cache.
"""

from collections.abc import Iterator, Mapping

import torch

from moso.gradients.layers import Place
from moso.gradients.point import Tensors

# Number of autograd nodes behind a derived tensor up to which two derivations are compared.
_COMPARED = 256


def is_view(place: Place, leaf: torch.Tensor) -> bool:
    """Return whether a place is a view of the parameter's memory in which each number occurs at most once."""
    tensor = place.tensor
    return (
        tensor is not None
        and place.isometric
        and len(place.names) == 1
        and tensor.dtype == leaf.dtype
        and tensor.layout == torch.strided
        and leaf.is_contiguous()
        and not tensor.is_conj()
        and tensor.untyped_storage().data_ptr() == leaf.untyped_storage().data_ptr()
    )


def back_to_parameters(place: Place, gradient: torch.Tensor, leaves: Tensors) -> Iterator[tuple[str, torch.Tensor]]:
    """Map gradients with respect to a place to gradients with respect to its parameters.

    Args:
        place: A parameter, some of its rows, or a derived tensor.
        gradient: Per-sample gradients with respect to the place, ``[some, *place.shape]``.
        leaves: The parameters as leaves of the derived tensor's autograd graph, by name.

    Yields:
        The name of a parameter, and the gradients with respect to it, ``[some, *parameter.shape]``.
    """
    if place.rows is not None:
        whole = gradient.new_zeros(len(gradient), *leaves[place.name].shape)
        whole[:, slice(*place.rows)] = gradient
        gradient = whole
    if place.rows is not None or place.tensor is None:
        yield place.name, gradient
        return
    names = [name for name in place.names if name in leaves]
    if len(names) == 1 and is_view(place, leaves[names[0]]):
        leaf, tensor = leaves[names[0]], place.tensor
        whole = gradient.new_zeros(len(gradient), *leaf.shape)
        offset = tensor.storage_offset() - leaf.storage_offset()
        shown = whole.as_strided((len(gradient), *tensor.shape), (leaf.numel(), *tensor.stride()), offset)
        shown.copy_(gradient)
        yield names[0], whole
        return
    targets = [leaves[name] for name in names]
    gradient = gradient.to(place.tensor.dtype)
    try:
        found = torch.autograd.grad(
            place.tensor, targets, gradient, retain_graph=True, allow_unused=True, is_grads_batched=True
        )
    except RuntimeError:  # some function in the graph has no vmap rule: one sample at a time
        rows = [
            torch.autograd.grad(place.tensor, targets, own, retain_graph=True, allow_unused=True) for own in gradient
        ]
        stacked = [[part for part in parts if part is not None] for parts in zip(*rows, strict=True)]
        found = tuple(torch.stack(parts) if parts else None for parts in stacked)  # type: ignore[misc]
    for name, own in zip(names, found, strict=True):
        if own is not None:
            yield name, own


def pushed_forward(place: Place, leaves: Tensors, direction: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the Jacobian-vector product of a derived tensor along a direction of its parameters.

    The vector-Jacobian product is linear in its vector; differentiating it with respect to that vector gives the
    forward derivative.

    Args:
        place: A place with a derived tensor.
        leaves: The parameters as leaves of the derived tensor's autograd graph, by name.
        direction: The direction, by parameter name; missing parameters do not move.
    """
    tensor = place.tensor
    assert tensor is not None
    names = [name for name in place.names if name in leaves and name in direction]
    if len(names) == 1 and is_view(place, leaves[names[0]]):
        leaf = leaves[names[0]]
        moved = direction[names[0]].detach().to(leaf).contiguous()
        return moved.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset() - leaf.storage_offset())
    start = torch.zeros_like(tensor, requires_grad=True)
    if not names:
        return start.detach()
    back = torch.autograd.grad(
        tensor, [leaves[name] for name in names], start, create_graph=True, retain_graph=True, allow_unused=True
    )
    along = [(part * direction[name]).sum() for name, part in zip(names, back, strict=True) if part is not None]
    if not along:
        return start.detach()
    return torch.autograd.grad(torch.stack(along).sum(), start, retain_graph=True)[0].detach()


class PushedForward:
    """Caches :func:`pushed_forward` along one direction over many batches, which mostly derive the same tensors."""

    def __init__(self, direction: Mapping[str, torch.Tensor]) -> None:
        self.direction = direction
        self._known: list[tuple[Place, torch.Tensor]] = []

    def __call__(self, place: Place, leaves: Tensors) -> torch.Tensor:
        """Return the Jacobian-vector product of a place, from the cache if an equal derivation is in it."""
        for known, moved in self._known:
            if derives_the_same(known, place):
                return moved
        moved = pushed_forward(place, leaves, self.direction)
        self._known.append((place, moved))
        return moved


def derives_the_same(one: Place, other: Place) -> bool:
    """Return whether two batches' places are the same function of the same parameters: equal values, equal graphs."""
    if one is other:
        return True
    first, second = one.tensor, other.tensor
    if one.names != other.names or one.rows != other.rows or (first is None) != (second is None):
        return False
    if first is None or second is None:
        return True
    if first.shape != second.shape or first.dtype != second.dtype or not torch.equal(first, second):
        return False
    ways = _way_back(first), _way_back(second)
    return ways[0] is not None and ways[0] == ways[1]


def _way_back(tensor: torch.Tensor) -> tuple[str, ...] | None:
    """Return the names of the autograd nodes between a tensor and its leaves; None if there are too many to compare."""
    found, left = [], [tensor.grad_fn]
    while left:
        node = left.pop()
        if node is None:
            found.append("")
            continue
        found.append(node.name())
        if len(found) > _COMPARED:
            return None
        left.extend(following for following, _ in node.next_functions)
    return tuple(found)
