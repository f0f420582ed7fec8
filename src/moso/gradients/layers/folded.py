"""A convolution and the batch-norm behind it as one call: `y = s (W * a) + (c - s mean)`, `s = w / std`.

With `g` the gradient by the weight `s W` that the call really has, and `h = sum_t b_t` that by its bias:

    by W:  s g        by the convolution's own bias:  s h
    by w:  (W . g + (bias - mean) h) / std, channel by channel        by c:  h

So one gradient a sample gives all of them, and batch-norm costs neither a pass of its own nor the memory of its input.
"""

import torch

from moso.gradients.layers.convolution import convolution
from moso.gradients.layers.parts import Call, Each, Operation


def _each(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    weight, bias = dict(convolution.each(call, a, b))["weight"], b.flatten(3).sum((1, 3))
    plain, scale, inverse = call.given["plain"], call.given["scale"], call.given["inverse"]
    yield "norm_bias", bias
    if "norm_weight" in call.places:
        # Channel by channel, so that nothing as large as the gradients themselves is made.
        products = torch.einsum("nok,ok->no", weight.flatten(2), plain.flatten(1))
        yield "norm_weight", (products + call.given["shift"] * bias) * inverse
    if "own_bias" in call.places:
        yield "own_bias", bias * scale
    yield "weight", weight.mul_(scale.view(-1, *[1] * (weight.ndim - 2)))


folded_convolution = Operation(convolution.arguments, convolution.split, _each)
