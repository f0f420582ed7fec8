"""A convolution and the batch-norm behind it as one call: `y = s (W * a) + (c - s mean)`, `s = w / std`.

With `g` the gradient with respect to the call's actual weight `s W`, and `h = sum_t b_t` that with respect to its bias:

    by W:  s g        by the convolution's own bias:  s h
    by w:  (W . g + (bias - mean) h) / std, per channel        by c:  h

One gradient per sample thus gives all of them, and batch-norm costs neither a pass of its own nor memory for its input.
"""

from collections.abc import Mapping

import torch

from moso.gradients.layers.convolution import convolution
from moso.gradients.layers.operation import Call, Each, Operation, Sums, chunks, weighted_sum, within


def _each(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    weight, small = _gradients(call, a, b)
    yield from small.items()
    scale = call.given["scale"]
    yield "weight", weight.mul_(scale.view(-1, *[1] * (weight.ndim - 2)))


def _sums(call: Call, a: torch.Tensor, b: torch.Tensor, scales: torch.Tensor) -> Sums:
    """Compute norms and totals; the scale of a channel is applied after its numbers were summed."""
    scale = call.given["scale"]
    for part in chunks(call.given["weight"].numel(), len(b)):
        weight, small = _gradients(call, a[part], b[part])
        squared = scales[part].square()
        for role, own in small.items():
            if role in call.places:
                yield role, within(b, part, own.square().sum(1) * squared), weighted_sum(own, scales[part])
        norms = torch.linalg.vector_norm(weight.flatten(2), dim=2).square() @ scale.square()
        total = weighted_sum(weight, scales[part]) * scale.view(-1, *[1] * (weight.ndim - 2))
        yield "weight", within(b, part, norms * squared), total


def _gradients(call: Call, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return the gradients of the call's actual weight, ``[batch, out, ...]``, and of all parameters per channel."""
    weight, bias = dict(convolution.each(call, a, b))["weight"], b.flatten(3).sum((1, 3))
    small = {"norm_bias": bias}
    if "norm_weight" in call.places:
        # Contracted per channel, without a temporary as large as the gradients themselves.
        products = torch.einsum("nok,ok->no", weight.flatten(2), call.given["plain"].flatten(1))
        small["norm_weight"] = (products + call.given["shift"] * bias) * call.given["inverse"]
    if "own_bias" in call.places:
        small["own_bias"] = bias * call.given["scale"]
    return weight, small


def _along(call: Call, b: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return `b * dy` along a direction of all parameters of both layers: one convolution with the moved weight."""
    given = call.given
    weight, bias = torch.zeros_like(given["plain"]), torch.zeros_like(given["scale"])
    shape = (-1, *[1] * (weight.ndim - 1))
    if "weight" in values:
        weight = given["scale"].view(shape) * values["weight"]
    if "norm_weight" in values:
        moved = given["inverse"] * values["norm_weight"]
        weight, bias = weight + moved.view(shape) * given["plain"], moved * given["shift"]
    if "norm_bias" in values:
        bias = bias + values["norm_bias"]
    if "own_bias" in values:
        bias = bias + given["scale"] * values["own_bias"]
    own = {name: value for name, value in given.items() if name in convolution.arguments}
    return call.function(**{**own, "weight": weight, "bias": bias}) * b


folded_convolution = Operation(
    convolution.arguments, convolution.split, _each, _sums, along=_along,
    roles=("weight", "norm_weight", "norm_bias", "own_bias"),
)  # fmt: skip
