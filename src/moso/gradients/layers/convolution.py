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

from moso.gradients.layers.parts import Buffers, Parts

# The second form pays where its T^2 (patch + out) operations are below this share of the first one's.
GRAM_SHARE = 0.5
# Sliding pays until the padded rows are this much longer than the rows of positions.
SLIDING_EXCESS = 1.6


def convolution(layer: Any, a: torch.Tensor, b: torch.Tensor, buffers: Buffers) -> Parts:
    """Weight and bias; `a: [batch, in, *size]`, `b: [batch, out, *positions]`."""
    positions = math.prod(b.shape[2:])
    outputs, patch = layer.out_channels // layer.groups, math.prod(layer.weight.shape[1:])
    if positions * (patch + outputs) < GRAM_SHARE * patch * outputs:
        padded = _padded(layer, a)
        yield "weight", _by_gram(layer, padded, b), _weight_gradient(layer, padded, b)
    else:
        yield "weight", *_by_offset(layer, a, b)
    if layer.bias is not None:
        own = b.flatten(2).sum(2)
        yield "bias", own.square().sum(1), own.sum(0)


def _padded(layer: Any, a: torch.Tensor, more: int = 0) -> torch.Tensor:
    """The input as the kernel meets it, with `more` rows of zeros after its first dimension of positions."""
    # The layer's own list is in the order F.pad wants, last dimension first.
    amounts = list(layer._reversed_padding_repeated_twice)
    if layer.padding_mode != "zeros":
        a = F.pad(a, amounts, mode=layer.padding_mode) if any(amounts) else a
        amounts = [0] * len(amounts)
    amounts[-1] += more
    return F.pad(a, amounts) if any(amounts) else a


def _offsets(layer: Any) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(size) for size in layer.kernel_size))


def _shifted(layer: Any, padded: torch.Tensor, positions: torch.Size) -> Iterator[torch.Tensor]:
    """For each offset of the kernel, the input that meets it: `[batch * groups, in / groups, positions]`."""
    shape = len(padded) * layer.groups, layer.in_channels // layer.groups, -1
    for offset in _offsets(layer):
        window: tuple[slice, ...] = tuple(
            slice(start * dilation, start * dilation + stride * (count - 1) + 1, stride)
            for start, dilation, stride, count in zip(offset, layer.dilation, layer.stride, positions, strict=True)
        )
        yield padded[:, :, *window].reshape(shape)


def _slid(layer: Any, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, Iterator[torch.Tensor]]:
    """The same for stride 1 without a copy: in the flattened padded input an offset is one shift for all positions.

    `b` is laid out with the padded input's row length, zeros where a window would wrap around.
    """
    # One more row: the last shifts read past the end, where b is zero.
    padded = _padded(layer, a, more=1 if any(_reach(layer)[1:]) else 0)
    size, positions = padded.shape[2:], b.shape[2:]
    wide = [amount for d in range(len(size) - 1, 0, -1) for amount in (0, size[d] - positions[d])]
    rows = (F.pad(b, wide) if any(wide) else b).reshape(len(b) * layer.groups, layer.out_channels // layer.groups, -1)
    flat = padded.reshape(len(b) * layer.groups, layer.in_channels // layer.groups, -1)
    strides = [math.prod(size[d + 1 :]) for d in range(len(size))]

    def columns() -> Iterator[torch.Tensor]:
        for offset in _offsets(layer):
            start = sum(o * d * s for o, d, s in zip(offset, layer.dilation, strides, strict=True))
            yield flat[:, :, start : start + rows.shape[2]]

    return rows, columns()


def _reach(layer: Any) -> list[int]:
    return [dilation * (size - 1) for dilation, size in zip(layer.dilation, layer.kernel_size, strict=True)]


def _slides(layer: Any, b: torch.Tensor) -> bool:
    """Whether sliding pays: at stride 1, while padded rows are not much longer than the rows of positions."""
    longer = [(count + more) / count for count, more in zip(b.shape[3:], _reach(layer)[1:], strict=True)]
    return set(layer.stride) == {1} and math.prod(longer) < SLIDING_EXCESS


def _by_offset(layer: Any, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    batch, groups = len(b), layer.groups
    if _slides(layer, b):
        rows, columns = _slid(layer, a, b)
    else:
        rows = b.reshape(batch * groups, layer.out_channels // groups, -1)
        columns = _shifted(layer, _padded(layer, a), b.shape[2:])
    squared = torch.zeros(batch, dtype=b.dtype, device=b.device)
    total = torch.empty_like(layer.weight, dtype=b.dtype, device=b.device)
    for offset, seen in zip(_offsets(layer), columns, strict=True):
        gradients = torch.bmm(rows, seen.mT).view(batch, layer.out_channels, -1)
        squared += torch.linalg.vector_norm(gradients.flatten(1), dim=1).square()
        place: Any = (..., *offset)
        total[place] = gradients.sum(0)
    return squared, total


def _by_gram(layer: Any, padded: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    batch, groups = len(b), layer.groups
    rows = b.reshape(batch * groups, layer.out_channels // groups, -1)
    inputs = rows.new_zeros(len(rows), rows.shape[2], rows.shape[2])
    for seen in _shifted(layer, padded, b.shape[2:]):
        inputs.baddbmm_(seen.mT, seen)
    return (inputs * torch.bmm(rows.mT, rows)).sum((1, 2)).view(batch, groups).sum(1)


def _weight_gradient(layer: Any, padded: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    none = [0] * len(layer.kernel_size)
    _, gradient, _ = torch.ops.aten.convolution_backward(
        b, padded, layer.weight.detach(), None, layer.stride, none, layer.dilation, False, none, layer.groups,
        [False, True, False],
    )  # fmt: skip
    result: torch.Tensor = gradient
    return result
