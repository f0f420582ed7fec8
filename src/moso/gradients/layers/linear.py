"""`nn.Linear` with any leading dimensions: `y_t = W a_t + c` at positions t.

    g = sum_t b_t a_t^T        |g|_F^2 = sum_{t,s} (b_t . b_s) (a_t . a_s)

The second form costs T^2 (in + out) a sample, the first T in out: few positions take the second, many the first.
"""

import torch
from torch import nn

from moso.gradients.layers.parts import Buffers, Parts

# Gradients of single samples that exist at one time.
CHUNK_NUMBERS = 2**24


def linear(layer: nn.Linear, a: torch.Tensor, b: torch.Tensor, buffers: Buffers) -> Parts:
    """Weight and bias; `a: [batch, ..., in]`, `b: [batch, ..., out]`."""
    a, b = a.reshape(len(a), -1, a.shape[-1]), b.reshape(len(b), -1, b.shape[-1])
    positions, inputs, outputs = a.shape[1], a.shape[2], b.shape[2]
    if positions == 1:
        squared = a.square().sum((1, 2)) * b.square().sum((1, 2))
        yield "weight", squared, b[:, 0].T @ a[:, 0]
    elif positions * (inputs + outputs) < inputs * outputs:
        squared = (torch.bmm(a, a.mT) * torch.bmm(b, b.mT)).sum((1, 2))
        yield "weight", squared, b.flatten(0, 1).T @ a.flatten(0, 1)
    else:
        squared, total = torch.zeros_like(a[:, 0, 0]), torch.zeros(outputs, inputs, dtype=a.dtype, device=a.device)
        chunk = max(1, CHUNK_NUMBERS // (inputs * outputs))
        for start in range(0, len(a), chunk):
            part = slice(start, start + chunk)
            gradients = torch.bmm(b[part].mT, a[part])
            squared[part] = gradients.square().sum((1, 2))
            total += gradients.sum(0)
        yield "weight", squared, total
    if layer.bias is not None:
        own = b.sum(1)
        yield "bias", own.square().sum(1), own.sum(0)
