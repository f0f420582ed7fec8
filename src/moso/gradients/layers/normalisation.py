"""Normalisation layers, `y = w * x_hat + c`: the gradients of single samples are as small as `w`, and are formed.

Batch-norm is in evaluation mode here, so `x_hat` of a sample depends on that sample alone.
"""

from typing import Any

import torch
from torch.func import functional_call

from moso.gradients.layers.parts import Buffers, Parts


def batch_norm(layer: Any, a: torch.Tensor, b: torch.Tensor, buffers: Buffers) -> Parts:
    """Batch-norm with running statistics: `sum b x_hat = (sum b a - mean sum b) / std`, one pass over `a` and `b`."""
    if buffers.get("running_mean") is None:
        yield from channel_norm(layer, a, b, buffers)
        return
    batch, channels = b.shape[:2]
    rows, columns = b.reshape(batch * channels, 1, -1), a.reshape(batch * channels, -1, 1)
    products, bias = torch.bmm(rows, columns).view(batch, channels), b.reshape(batch, channels, -1).sum(2)
    weight = (products - buffers["running_mean"] * bias) * torch.rsqrt(buffers["running_var"] + layer.eps)
    for name, gradients in (("weight", weight), ("bias", bias)):
        yield name, gradients.square().sum(1), gradients.sum(0)


def channel_norm(layer: Any, a: torch.Tensor, b: torch.Tensor, buffers: Buffers) -> Parts:
    """Group- and instance-norm: `[batch, channels, ...]`, parameters a channel."""
    channels = b.shape[:2]
    yield from _parts(
        layer, (b * _normalised(layer, a, buffers)).reshape(*channels, -1), b.reshape(*channels, -1), dim=2
    )


def trailing_norm(layer: Any, a: torch.Tensor, b: torch.Tensor, buffers: Buffers) -> Parts:
    """Layer-norm and RMS-norm: `[batch, ..., *shape]`, parameters of the trailing shape."""
    shape = tuple(layer.normalized_shape)
    both = (b * _normalised(layer, a, buffers)).reshape(len(b), -1, *shape), b.reshape(len(b), -1, *shape)
    yield from _parts(layer, *both, dim=1)


def _parts(layer: Any, weighted: torch.Tensor, plain: torch.Tensor, dim: int) -> Parts:
    for name, gradients in (("weight", weighted.sum(dim)), ("bias", plain.sum(dim))):
        if getattr(layer, name, None) is not None:
            yield name, gradients.flatten(1).square().sum(1), gradients.sum(0)


def _normalised(layer: Any, a: torch.Tensor, buffers: Buffers) -> torch.Tensor:
    """The layer's output with weight 1 and bias 0."""
    plain = {
        name: torch.ones_like(value) if name == "weight" else torch.zeros_like(value)
        for name, value in layer.named_parameters(recurse=False)
    }
    result: torch.Tensor = functional_call(layer, {**plain, **buffers}, (a,))
    return result
