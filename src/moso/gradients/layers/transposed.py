"""`F.conv_transpose1d`, `2d` and `3d`.

The forward pass of a transposed convolution is the backward pass of a convolution with respect to its input. Its weight
gradient is therefore that of a convolution whose input is `b` and whose output gradient is `a`.
"""

import torch

from moso.gradients.layers.convolution import per_sample_weight
from moso.gradients.layers.operation import Call, Each, Operation


def _split(call: Call, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return call.by_sample(call.a, call.a.ndim - 1), call.by_sample(b, b.ndim - 1)


def _each(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    if "bias" in call.places:
        yield "bias", b.flatten(3).sum((1, 3))
    if "weight" in call.places:
        yield "weight", per_sample_weight(call, b, a)


transposed_convolution = Operation(
    ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation"), _split, _each
)
