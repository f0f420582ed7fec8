"""`F.multi_head_attention_forward`, split into its linear maps.

PyTorch's attention module calls one function, inside which the uses of its parameters cannot be watched. Written out as
`softmax(q k^T / sqrt(d) + mask) v` between calls of `F.linear`, each linear map has its closed form.
"""

import inspect
from collections.abc import Callable

import torch
import torch.nn.functional as F

from moso.gradients.layers.operation import Arguments, Rows

# `F.linear` with some rows of weight and bias, or with all (None).
Linear = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None, Rows | None], torch.Tensor]
_SIGNATURE = inspect.signature(F.multi_head_attention_forward)
_RARE = ("bias_k", "bias_v", "add_zero_attn", "static_k", "static_v", "use_separate_proj_weight")


def attention(linear: Linear, *args: object, **kwargs: object) -> tuple[torch.Tensor, torch.Tensor | None] | None:
    """Return what `F.multi_head_attention_forward` returns; None for options not supported here.

    Args:
        linear: Applies a watched linear map with some rows of weight and bias.
        args: Positional arguments of `F.multi_head_attention_forward`.
        kwargs: Keyword arguments of `F.multi_head_attention_forward`.
    """
    bound = _SIGNATURE.bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    query, key, value = given["query"], given["key"], given["value"]
    drops = given["training"] and given["dropout_p"] > 0
    if query.ndim != 3 or drops or any(given[name] is not None and given[name] is not False for name in _RARE):
        return None
    weight, bias = given["in_proj_weight"], given["in_proj_bias"]
    if query is key and key is value:
        projected = list(linear(query, weight, bias, None).chunk(3, dim=-1))
    else:
        thirds = [(n * query.shape[-1], (n + 1) * query.shape[-1]) for n in range(3)]
        projected = [linear(x, weight, bias, rows) for x, rows in zip((query, key, value), thirds, strict=True)]
    q, k, v = (_by_head(x, given["num_heads"]) for x in projected)
    mask = _mask(given, q, k)
    weights = None
    if given["need_weights"]:
        products = q @ k.mT / q.shape[-1] ** 0.5
        weights = torch.softmax(products if mask is None else products + mask, dim=-1)
        mixed = weights @ v
        weights = weights.mean(1) if given["average_attn_weights"] else weights
    else:
        mixed = F.scaled_dot_product_attention(q, k, v, mask)
    # [batch, heads, length, width] back to [length, batch, heads * width]
    joined = mixed.permute(2, 0, 1, 3).flatten(2)
    return linear(joined, given["out_proj_weight"], given["out_proj_bias"], None), weights


def _by_head(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Reshape ``[length, batch, width]`` to ``[batch, heads, length, width / heads]``."""
    return x.reshape(*x.shape[:2], heads, -1).permute(1, 2, 0, 3)


def _mask(given: Arguments, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor | None:
    """Return both masks as one additive mask."""
    batch, heads, length = q.shape[:3]
    whole: torch.Tensor | None = None
    mask, padding = given["attn_mask"], given["key_padding_mask"]
    if mask is not None:
        whole = _additive(mask, q)
        whole = whole.view(batch, heads, length, -1) if whole.ndim == 3 else whole
    if padding is not None:
        own = _additive(padding, q).view(batch, 1, 1, k.shape[2])
        whole = own if whole is None else whole + own
    return whole


def _additive(mask: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Convert a boolean mask (True: not attended) to an additive one."""
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill_(mask, -torch.inf)
