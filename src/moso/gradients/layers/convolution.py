"""`nn.Conv1d`, `nn.Conv2d`, `nn.Conv3d`, with groups, stride, dilation and any padding.

At output position t the layer multiplies W by the patch u_t of its (padded) input, so it is linear over patches:

    g = sum_t b_t u_t^T        |g|_F^2 = sum_{t,s} (b_t . b_s) (u_t . u_s)

Patches are never laid out for the first form: for each offset of the kernel, `u_t` is a shifted view of the padded
input, and the gradient at that offset is one batched product. Many positions and few channels take it; few positions
and many channels take the second, whose sum of gradients is the ordinary weight gradient.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

# The second form pays where its T^2 (patch + out) operations are below this share of the first one's.
GRAM_SHARE = 0.5


def convolution(layer: Any, a: torch.Tensor, b: torch.Tensor) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Weight and bias; `a: [batch, in, *size]`, `b: [batch, out, *positions]`."""
    padded = _padded(layer, a)
    positions = math.prod(b.shape[2:])
    outputs, patch = layer.out_channels // layer.groups, math.prod(layer.weight.shape[1:])
    if positions * (patch + outputs) < GRAM_SHARE * patch * outputs:
        yield "weight", _by_gram(layer, padded, b), _weight_gradient(layer, padded, b)
    else:
        yield "weight", *_by_offset(layer, padded, b)
    if layer.bias is not None:
        own = b.flatten(2).sum(2)
        yield "bias", own.square().sum(1), own.sum(0)


def _padded(layer: Any, a: torch.Tensor) -> torch.Tensor:
    # The layer's own list is in the order F.pad wants, last dimension first.
    amounts = layer._reversed_padding_repeated_twice
    if not any(amounts):
        return a
    return F.pad(a, amounts, mode="constant" if layer.padding_mode == "zeros" else layer.padding_mode)


def _shifted(layer: Any, padded: torch.Tensor, positions: torch.Size) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    """For each offset of the kernel, the input that meets it at every position: `[batch, in, *positions]`."""
    for offset in itertools.product(*(range(size) for size in layer.kernel_size)):
        window: tuple[slice, ...] = tuple(
            slice(start * dilation, start * dilation + stride * (count - 1) + 1, stride)
            for start, dilation, stride, count in zip(offset, layer.dilation, layer.stride, positions, strict=True)
        )
        yield offset, padded[:, :, *window]


def _by_offset(layer: Any, padded: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    batch, groups = len(b), layer.groups
    rows = b.reshape(batch * groups, layer.out_channels // groups, -1)
    squared = torch.zeros(batch, dtype=b.dtype, device=b.device)
    total = torch.empty_like(layer.weight, dtype=b.dtype, device=b.device)
    for offset, seen in _shifted(layer, padded, b.shape[2:]):
        columns = seen.reshape(batch * groups, layer.in_channels // groups, -1)
        gradients = torch.bmm(rows, columns.mT).view(batch, layer.out_channels, -1)
        squared += gradients.square().sum((1, 2))
        place: Any = (..., *offset)
        total[place] = gradients.sum(0)
    return squared, total


def _by_gram(layer: Any, padded: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    batch, groups = len(b), layer.groups
    rows = b.reshape(batch * groups, layer.out_channels // groups, -1)
    inputs = rows.new_zeros(len(rows), rows.shape[2], rows.shape[2])
    for _, seen in _shifted(layer, padded, b.shape[2:]):
        columns = seen.reshape(batch * groups, layer.in_channels // groups, -1)
        inputs.baddbmm_(columns.mT, columns)
    return (inputs * torch.bmm(rows.mT, rows)).sum((1, 2)).view(batch, groups).sum(1)


def _weight_gradient(layer: Any, padded: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    none = [0] * len(layer.kernel_size)
    _, gradient, _ = torch.ops.aten.convolution_backward(
        b, padded, layer.weight.detach(), None, layer.stride, none, layer.dilation, False, none, layer.groups,
        [False, True, False],
    )  # fmt: skip
    result: torch.Tensor = gradient
    return result
