"""`nn.Embedding`: the gradient of a row is the sum of `b` over the positions that looked it up.

|g|^2 = sum over pairs of positions t, s that looked up the same row of b_t . b_s
"""

import torch
from torch import nn

from moso.gradients.layers.parts import Buffers, Parts


def embedding(layer: nn.Embedding, a: torch.Tensor, b: torch.Tensor, buffers: Buffers) -> Parts:
    """The table; `a: [batch, ...]` row numbers, `b: [batch, ..., width]`."""
    rows, b = a.reshape(len(a), -1), b.reshape(len(a), -1, b.shape[-1])
    if layer.padding_idx is not None:
        b = b * (rows != layer.padding_idx)[..., None]
    same = (rows[:, :, None] == rows[:, None, :]).to(b.dtype)
    total = torch.zeros_like(layer.weight, dtype=b.dtype).index_add_(0, rows.flatten(), b.flatten(0, 1))
    yield "weight", (same * torch.bmm(b, b.mT)).sum((1, 2)), total
