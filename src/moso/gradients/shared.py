"""A weight that several linear calls share (tied or repeated layers), as one call over the positions of all of them.

    g = sum_i sum_t b_it a_it^T

A call that uses the transposed weight has `a` and `b` exchanged. The closed forms of one linear call thus give norms
and totals, and per-sample gradients need not be formed and added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from moso.gradients.derived_tensors import is_view
from moso.gradients.layers import Call, Place
from moso.gradients.layers.linear import addmm, linear, product
from moso.gradients.point import Tensors

# One use of a place: the call, the role of the place in the call, the call's input and its output gradient.
Use = tuple[Call, str, torch.Tensor, torch.Tensor]


def as_one_call(
    uses: Mapping[Place, Sequence[Use]], leaves: Tensors
) -> tuple[Call, tuple[str], torch.Tensor, torch.Tensor] | None:
    """Merge all uses of a weight into one linear call.

    Args:
        uses: The uses of each place of the weight.
        leaves: The parameters, by name.

    Returns:
        The call, the role of the weight, inputs and output gradients concatenated over positions; None if some use is
        not a linear call.
    """
    inputs, outputs = list[torch.Tensor](), list[torch.Tensor]()
    call: Call | None = None
    for place, own in uses.items():
        turned = _is_transposed(place, leaves)
        if turned is None:
            return None
        for call, role, a, b in own:
            if role != "weight" or call.operation not in (linear, product, addmm):
                return None
            # The closed forms of `product` and `addmm` are those of `linear` with the weight transposed.
            other_way = turned != (call.operation is not linear)
            inputs.append(b if other_way else a)
            outputs.append(a if other_way else b)
    if call is None or len({tensor.dtype for tensor in (*inputs, *outputs)}) > 1:
        return None
    name = next(iter(uses)).name
    one = replace(call, operation=linear, given={"weight": leaves[name]}, places={"weight": Place((name,))})
    return one, ("weight",), torch.cat(inputs, 1), torch.cat(outputs, 1)


def _is_transposed(place: Place, leaves: Tensors) -> bool | None:
    """Return whether a place is its matrix transposed (True) or the matrix itself (False); None if it is neither."""
    if place.rows is not None or len(place.names) > 1:
        return None
    leaf = leaves[place.name]
    if place.tensor is None:
        return False if leaf.ndim == 2 else None
    if not is_view(place, leaf) or leaf.ndim != 2:
        return None
    tensor = place.tensor
    return True if tensor.shape == leaf.shape[::-1] and tensor.stride() == leaf.stride()[::-1] else None
