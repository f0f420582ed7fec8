"""A weight that several linear calls share (tied layers, layers that repeat): one call with the positions of them all.

    g = sum_i sum_t b_it a_it^T

A call that sees the weight transposed has `a` and `b` the other way round. So the closed forms of one linear call give
norms and totals, and the gradients of single samples need not be formed and added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from moso.gradients.derived_tensors import is_view
from moso.gradients.layers import Call, Place
from moso.gradients.layers.linear import addmm, linear, product
from moso.gradients.point import Tensors

# A use of a place: the call, the role of the place in it, and the call's input and output gradient.
Use = tuple[Call, str, torch.Tensor, torch.Tensor]


def as_one_call(
    uses: Mapping[Place, Sequence[Use]], leaves: Tensors
) -> tuple[Call, tuple[str], torch.Tensor, torch.Tensor] | None:
    """The one linear call that all uses of a weight amount to, if all of them are linear calls."""
    inputs, outputs = list[torch.Tensor](), list[torch.Tensor]()
    call: Call | None = None
    for place, own in uses.items():
        turned = _is_transposed(place, leaves)
        if turned is None:
            return None
        for call, role, a, b in own:
            if role != "weight" or call.operation not in (linear, product, addmm):
                return None
            # The forms of `product` and `addmm` are those of `linear` with the weight transposed.
            other_way = turned != (call.operation is not linear)
            inputs.append(b if other_way else a)
            outputs.append(a if other_way else b)
    if call is None or len({tensor.dtype for tensor in (*inputs, *outputs)}) > 1:
        return None
    name = next(iter(uses)).name
    one = replace(call, operation=linear, given={"weight": leaves[name]}, places={"weight": Place((name,))})
    return one, ("weight",), torch.cat(inputs, 1), torch.cat(outputs, 1)


def _is_transposed(place: Place, leaves: Tensors) -> bool | None:
    """Whether a place is its matrix transposed, or the matrix itself; None where it is something else."""
    if place.rows is not None or len(place.names) > 1:
        return None
    leaf = leaves[place.name]
    if place.tensor is None:
        return False if leaf.ndim == 2 else None
    if not is_view(place, leaf) or leaf.ndim != 2:
        return None
    tensor = place.tensor
    return True if tensor.shape == leaf.shape[::-1] and tensor.stride() == leaf.stride()[::-1] else None
