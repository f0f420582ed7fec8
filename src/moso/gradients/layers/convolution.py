"""`F.conv1d`, `F.conv2d`, `F.conv3d`, with groups, stride, dilation and padding.

At output position t the layer multiplies W by the patch u_t of its (padded) input, so it is linear over patches:

    g = sum_t b_t u_t^T        |g|_F^2 = sum_{t,s} (b_t . b_s) (u_t . u_s)

The first form is computed as the weight gradient of one grouped convolution with one group per sample or, for few input
channels, as a matrix product over written-out patches (im2col). With few positions and many channels the second form
(Gram matrices) is cheaper; its sum of gradients is the ordinary weight gradient.
"""

import itertools
from collections.abc import Iterator
from math import prod

import torch
import torch.nn.functional as F

from moso.gradients.layers.operation import Call, Each, Operation, Sums, scaled

# The second form pays off where its T^2 (patch + out) operations are below this share of the first form's.
GRAM_SHARE = 0.5
# Up to this number of input channels, as in a first layer, patches are written out: the libraries' convolutions are
# slow with so few.
FEW_CHANNELS = 4


def _split(call: Call, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return input and output gradient, ``[batch, images, channels, *size]``; pad the input for `padding="same"`."""
    a = call.a
    if call.given.get("padding") == "same":
        reach = [spread * (size - 1) for spread, size in zip(_settings(call)[2], _kernel(call), strict=True)]
        a = F.pad(a, [amount for one in reversed(reach) for amount in (one // 2, one - one // 2)])
    return call.by_sample(a, a.ndim - 1), call.by_sample(b, b.ndim - 1)


def _kernel(call: Call) -> tuple[int, ...]:
    return tuple(call.given["weight"].shape[2:])


def _each(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    if "bias" in call.places:
        yield "bias", b.flatten(3).sum((1, 3))
    if "weight" not in call.places:
        return
    (batch, images), weight = a.shape[:2], call.given["weight"].detach()
    if call.given.get("groups", 1) == 1 and weight.shape[1] <= FEW_CHANNELS:
        own = _from_patches(call, a.flatten(0, 1), b.flatten(0, 1)).view(batch, images, *weight.shape)
        yield "weight", own.sum(1) if images > 1 else own[:, 0]
        return
    yield "weight", per_sample_weight(call, a, b)


def per_sample_weight(call: Call, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Compute the weight gradient of every sample by one convolution with a group per image, ``[batch, *weight]``."""
    (batch, images), weight = a.shape[:2], call.given["weight"].detach()
    apart = weight.to(b.dtype).expand(batch * images, *weight.shape).flatten(0, 1)
    gradients = weight_gradient(
        call, a.reshape(1, -1, *a.shape[3:]), b.reshape(1, -1, *b.shape[3:]), apart, batch * images
    )
    own = gradients.view(batch, images, *weight.shape)
    return own.sum(1) if images > 1 else own[:, 0]


def _from_patches(call: Call, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Compute `sum_t b_t u_t^T` for every image from written-out patches."""
    return torch.bmm(b.flatten(2), _written_out(call, a, b.shape[2:]).mT)


def _written_out(call: Call, a: torch.Tensor, positions: torch.Size) -> torch.Tensor:
    """Return the patch at every position (im2col), ``[batch, channels x kernel, positions]``."""
    if a.ndim == 4:
        stride, padding, dilation = _settings(call)
        return F.unfold(a, _kernel(call), tuple(dilation), tuple(padding), tuple(stride))
    seen = list(_patches(call, a, positions))
    written = a.new_empty(len(a), a.shape[1], len(seen), *positions)
    for offset, window in enumerate(seen):
        written[:, :, offset] = window
    return written.view(len(a), a.shape[1] * len(seen), -1)


def weight_gradient(call: Call, a: torch.Tensor, b: torch.Tensor, weight: torch.Tensor, times: int = 1) -> torch.Tensor:
    """Compute the gradient of `weight`, which has `times` as many groups as the call."""
    stride, padding, dilation = _settings(call)
    groups = call.given.get("groups", 1) * times
    gradient: torch.Tensor = torch.ops.aten.convolution_backward(
        b, a, weight, None, stride, padding, dilation, False, [0] * len(stride), groups, [False, True, False]
    )[1]
    return gradient


def _settings(call: Call) -> tuple[list[int], list[int], list[int]]:
    """Return stride, padding and dilation per dimension; padding given by name was applied before, and counts as 0."""
    dimensions = len(_kernel(call))
    amount = call.given.get("padding", 0)
    stride, padding, dilation = (
        [value] * dimensions if isinstance(value, int) else list(value) * (dimensions // len(value))
        for value in (
            call.given.get("stride", 1), 0 if isinstance(amount, str) else amount, call.given.get("dilation", 1)
        )
    )  # fmt: skip
    return stride, padding, dilation


def forms_gradients(weight: torch.Tensor, positions: int, groups: int = 1) -> bool:
    """Return whether forming per-sample gradients (the first form) is cheaper.

    Args:
        weight: The weight of the convolution, ``[out, in / groups, *kernel]``.
        positions: Number of output positions.
        groups: Number of groups.
    """
    patch, outputs = prod(weight.shape[1:]), len(weight) // groups
    return positions * (patch + outputs) >= GRAM_SHARE * patch * outputs


def _sums(call: Call, a: torch.Tensor, b: torch.Tensor, scales: torch.Tensor) -> Sums | None:
    weight = call.given["weight"]
    groups = call.given.get("groups", 1)
    positions = prod(b.shape[3:])
    if "weight" not in call.places or a.shape[1] > 1 or forms_gradients(weight, positions, groups):
        return None
    return _from_products(call, a[:, 0], scaled(b[:, 0], scales), groups)


def _from_products(call: Call, a: torch.Tensor, b: torch.Tensor, groups: int) -> Sums:
    batch = len(b)
    rows = b.reshape(batch * groups, b.shape[1] // groups, -1)
    if groups == 1 and a.shape[1] <= FEW_CHANNELS:
        written = _written_out(call, a, b.shape[2:])
        inputs = torch.bmm(written.mT, written)
    else:
        inputs = rows.new_zeros(len(rows), rows.shape[2], rows.shape[2])
        for window in _patches(call, a, b.shape[2:]):
            seen = window.reshape(len(rows), -1, rows.shape[2])
            inputs.baddbmm_(seen.mT, seen)
    squared = (inputs * torch.bmm(rows.mT, rows)).sum((1, 2)).view(batch, groups).sum(1)
    yield "weight", squared, weight_gradient(call, a, b, call.given["weight"].detach().to(b.dtype))
    if "bias" in call.places:
        own = b.flatten(2).sum(2)
        yield "bias", own.square().sum(1), own.sum(0)


def _patches(call: Call, a: torch.Tensor, positions: torch.Size) -> Iterator[torch.Tensor]:
    """Yield, for each offset of the kernel, the input that meets it: ``[batch, in, *positions]``."""
    stride, padding, dilation = _settings(call)
    if any(padding):
        a = F.pad(a, [amount for one in reversed(padding) for amount in (one, one)])
    for offset in itertools.product(*(range(size) for size in _kernel(call))):
        window: tuple[slice, ...] = tuple(
            slice(start * spread, start * spread + step * (count - 1) + 1, step)
            for start, spread, step, count in zip(offset, dilation, stride, positions, strict=True)
        )
        yield a[:, :, *window]


convolution = Operation(("input", "weight", "bias", "stride", "padding", "dilation", "groups"), _split, _each, _sums)
