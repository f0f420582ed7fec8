"""Tensors that are computed from parameters alone (weight norm, DoRA, a transposed weight), forward and back.

A gradient of one sample by such a tensor goes back to the parameters by a vector-Jacobian product, a batch at a time; a
direction goes forward by a Jacobian-vector product, once for all batches of a time step that derive the same tensor.
Rejected: letting gradients wait and taking many batches back at once. The product is bound by memory, and a batch of 32
is what fits a processor's cache.
"""

from collections.abc import Iterator, Mapping

import torch

from moso.gradients.layers import Place
from moso.gradients.point import Tensors

# Functions between a tensor and its parameters that two derivations are compared by.
_COMPARED = 256


def is_view(place: Place, leaf: torch.Tensor) -> bool:
    """Whether a place shows numbers of the parameter where they lie in memory, each at most once."""
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
    """From gradients `[some, ...]` by a place to the gradients by its parameters, with their names."""
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
    except RuntimeError:  # some function on the way back knows no vmap: one sample at a time
        rows = [
            torch.autograd.grad(place.tensor, targets, own, retain_graph=True, allow_unused=True) for own in gradient
        ]
        stacked = [[part for part in parts if part is not None] for parts in zip(*rows, strict=True)]
        found = tuple(torch.stack(parts) if parts else None for parts in stacked)  # type: ignore[misc]
    for name, own in zip(names, found, strict=True):
        if own is not None:
            yield name, own


def pushed_forward(place: Place, leaves: Tensors, direction: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """How something computed from parameters moves when they move along a direction.

    The derivative of a backward pass by what it began with is the forward derivative.
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
    """:func:`pushed_forward` along one direction for the places of many batches, which mostly derive the same."""

    def __init__(self, direction: Mapping[str, torch.Tensor]) -> None:
        self.direction = direction
        self._known: list[tuple[Place, torch.Tensor]] = []

    def __call__(self, place: Place, leaves: Tensors) -> torch.Tensor:
        """The direction of a place."""
        for known, moved in self._known:
            if derives_the_same(known, place):
                return moved
        moved = pushed_forward(place, leaves, self.direction)
        self._known.append((place, moved))
        return moved


def derives_the_same(one: Place, other: Place) -> bool:
    """Whether two batches' places are the same function of the same parameters: by numbers, and by the way to them."""
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
    """The names of the functions between a tensor and its leaves; None where there are too many to compare."""
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
