"""`F.embedding`: the gradient of a row is the sum of `b` over the positions that looked the row up.

|g|^2 = sum over pairs of positions t, s that looked up the same row of b_t . b_s
"""

from collections.abc import Mapping

import torch

from moso.gradients.layers.operation import Call, Each, Operation, Sums, scaled


def _split(call: Call, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows, b = call.by_sample(call.a, 0), call.by_sample(b, 1)
    padding = call.given.get("padding_idx")
    # The padding row is looked up like any other, but has no gradient.
    return rows, b if padding is None else b * (rows != padding % len(call.given["weight"]))[..., None]


def _each(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    table = b.new_zeros(len(a), *call.given["weight"].shape)
    yield "weight", table.scatter_add_(1, a[..., None].expand_as(b), b)


def _sums(call: Call, a: torch.Tensor, b: torch.Tensor, scales: torch.Tensor) -> Sums:
    b = scaled(b, scales)
    same = (a[:, :, None] == a[:, None, :]).to(b.dtype)
    total = torch.zeros_like(call.given["weight"], dtype=b.dtype).index_add_(0, a.flatten(), b.flatten(0, 1))
    yield "weight", (same * torch.bmm(b, b.mT)).sum((1, 2)), total


def _weighted_sums(
    call: Call, a: torch.Tensor, b: torch.Tensor, scales: torch.Tensor, metric: Mapping[str, torch.Tensor]
) -> Sums:
    """Yield norms with weights: positions that looked up the same row share the weights of that row."""
    b = scaled(b, scales)
    same = (a[:, :, None] == a[:, None, :]).to(b.dtype)
    total = torch.zeros_like(call.given["weight"], dtype=b.dtype).index_add_(0, a.flatten(), b.flatten(0, 1))
    weighted = b * metric["weight"][a].to(b)
    yield "weight", (same * torch.bmm(weighted, b.mT)).sum((1, 2)), total


def _holds(given: Mapping[str, object]) -> bool:
    """Return whether the gradient is plain: `max_norm` changes the table, `scale_grad_by_freq` mixes samples."""
    return given.get("max_norm") is None and not given.get("scale_grad_by_freq") and not given.get("sparse")


embedding = Operation(
    ("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"),
    _split, _each, _sums, _holds, weighted_sums=_weighted_sums,
)  # fmt: skip


def _bags(call: Call, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return row indices ``[batch, length]`` and the output gradient that reaches each, zero beyond a bag's end."""
    given = call.given
    rows, length = given["input"], len(given["weight"])
    offsets, weights = given.get("offsets"), given.get("per_sample_weights")
    if offsets is None:
        lengths = torch.full((len(rows),), rows.shape[1], device=rows.device)
        flat, share = rows.flatten(), None if weights is None else weights.flatten()
    else:
        if not given.get("include_last_offset"):
            offsets = torch.cat([offsets, offsets.new_tensor([len(rows)])])
        lengths = offsets.diff()
        flat, share = rows, weights
    bags = torch.repeat_interleave(torch.arange(len(lengths), device=rows.device), lengths)
    slots = torch.arange(len(bags), device=rows.device) - (lengths.cumsum(0) - lengths)[bags]
    counted = torch.ones(len(flat), dtype=b.dtype, device=b.device)
    padding = given.get("padding_idx")
    if padding is not None:
        counted = (flat != padding % length).to(b.dtype)
    share = counted if share is None else counted * share.detach()
    if given.get("mode", "mean") == "mean":
        sizes = torch.zeros(len(lengths), dtype=b.dtype, device=b.device).index_add_(0, bags, counted)
        share = share / sizes.clamp(min=1)[bags]
    numbers = flat.new_zeros(len(lengths), int(lengths.max()) if len(lengths) else 0)
    reached = b.new_zeros(*numbers.shape, b.shape[-1])
    numbers[bags, slots] = flat
    reached[bags, slots] = b[bags] * share[:, None]
    return call.by_sample(numbers, 0), call.by_sample(reached, 1)


def _bag_along(call: Call, b: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
    a, reached = _bags(call, b)
    return (values["weight"][a] * reached).sum((1, 2))


def _bag_holds(given: Mapping[str, object]) -> bool:
    return _holds(given) and given.get("mode", "mean") in ("sum", "mean")


embedding_bag = Operation(
    ("input", "weight", "offsets", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse",
     "per_sample_weights", "include_last_offset", "padding_idx"),
    _bags, _each, _sums, _bag_holds, _bag_along, weighted_sums=_weighted_sums,
)  # fmt: skip
