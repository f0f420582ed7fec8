"""`F.linear` at any number of positions t: `y_t = W a_t + c`; and matrix products, which are the same, transposed.

    g = sum_t b_t a_t^T        |g|_F^2 = sum_{t,s} (b_t . b_s) (a_t . a_s)

Per sample, the second form (Gram matrices) costs T^2 (in + out), beside the gradient of the whole batch. The first form
costs T in out, and the passes over the gradients that it forms. The second is chosen for few positions, the first for
many.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from moso.gradients.layers.operation import Call, Each, Operation, Sums, scaled

# The second form pays off while T (in + out) is below this share of in out.
PRODUCTS_SHARE = 0.4


def _split(call: Call, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return call.by_sample(call.a, 1), call.by_sample(b, 1)


def _each(transposed: bool, call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    if "weight" in call.places:
        yield "weight", torch.bmm(a.mT, b) if transposed else torch.bmm(b.mT, a)
    if "bias" in call.places:
        yield "bias", b.sum(1)


def _sums(transposed: bool, call: Call, a: torch.Tensor, b: torch.Tensor, scales: torch.Tensor) -> Sums | None:
    positions, inputs, outputs = a.shape[1], a.shape[2], b.shape[2]
    share = positions * (inputs + outputs) / max(1, inputs * outputs)
    if positions == 1 or share < PRODUCTS_SHARE or "weight" not in call.places:
        return _from_products(transposed, call, a, scaled(b, scales))
    return None


def _from_products(transposed: bool, call: Call, a: torch.Tensor, b: torch.Tensor) -> Sums:
    if "bias" in call.places:
        own = b.sum(1)
        yield "bias", own.square().sum(1), own.sum(0)
    if "weight" not in call.places:
        return
    if a.shape[1] == 1:
        squared = a.square().sum((1, 2)) * b.square().sum((1, 2))
    else:
        squared = (torch.bmm(a, a.mT) * torch.bmm(b, b.mT)).sum((1, 2))
    rows, columns = (a, b) if transposed else (b, a)
    yield "weight", squared, rows.flatten(0, 1).T @ columns.flatten(0, 1)


def _product_along(call: Call, b: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
    moved = call.a @ values["weight"]
    return (moved + values["bias"] if "bias" in call.places else moved) * b


def _is_plain(given: Mapping[str, Any]) -> bool:
    """Return whether `addmm` adds one bias per output to an unscaled product."""
    return bool(given.get("beta", 1) == 1 and given.get("alpha", 1) == 1 and given["bias"].ndim == 1)


linear = Operation(("input", "weight", "bias"), _split, partial(_each, False), partial(_sums, False))
# `a @ W`: the weight is the right factor.
product = Operation(
    ("input", "weight"), _split, partial(_each, True), partial(_sums, True), along=_product_along,
    holds=lambda given: not given["weight"].is_complex(),
)  # fmt: skip
# `torch.addmm(c, a, W)`, used by the linear layers of GPT-2.
addmm = Operation(
    ("bias", "input", "weight", "beta", "alpha"), _split, partial(_each, True), partial(_sums, True), _is_plain,
    _product_along, renamed={"input": "bias", "mat1": "input", "mat2": "weight"},
)  # fmt: skip
