"""`F.embedding`: the gradient of a row is the sum of `b` over the positions that looked it up.

|g|^2 = sum over pairs of positions t, s that looked up the same row of b_t . b_s
"""

from collections.abc import Mapping
from typing import Any

import torch

from moso.gradients.layers.parts import Call, Each, Operation, Sums


def _split(call: Call, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows, b = call.by_sample(call.a, 0), call.by_sample(b, 1)
    padding = call.given.get("padding_idx")
    # The padding row is looked up like any other, but has no gradient.
    return rows, b if padding is None else b * (rows != padding % len(call.given["weight"]))[..., None]


def _each(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    table = b.new_zeros(len(a), *call.given["weight"].shape)
    yield "weight", table.scatter_add_(1, a[..., None].expand_as(b), b)


def _sums(call: Call, a: torch.Tensor, b: torch.Tensor) -> Sums:
    same = (a[:, :, None] == a[:, None, :]).to(b.dtype)
    total = torch.zeros_like(call.given["weight"], dtype=b.dtype).index_add_(0, a.flatten(), b.flatten(0, 1))
    yield "weight", (same * torch.bmm(b, b.mT)).sum((1, 2)), total


def _holds(given: Mapping[str, Any]) -> bool:
    """Whether the gradient is the plain one: a maximal norm changes the table, a scaled gradient mixes samples."""
    return given.get("max_norm") is None and not given.get("scale_grad_by_freq") and not given.get("sparse")


embedding = Operation(
    ("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"),
    _split, _each, _sums, _holds,
)  # fmt: skip
