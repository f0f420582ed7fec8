"""`F.linear` at any number of positions t: `y_t = W a_t + c`.

    g = sum_t b_t a_t^T        |g|_F^2 = sum_{t,s} (b_t . b_s) (a_t . a_s)

The second form costs T^2 (in + out) a sample and the whole batch's gradient beside it, the first T in out and the
passes over what it forms: few positions take the second, many the first.
"""

import torch

from moso.gradients.layers.parts import Call, Each, Operation, Sums

# Products of positions pay while T (in + out) is below this share of in out.
PRODUCTS_SHARE = 0.4


def _split(call: Call, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return call.by_sample(call.a, 1), call.by_sample(b, 1)


def _each(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    if "weight" in call.places:
        yield "weight", torch.bmm(b.mT, a)
    if "bias" in call.places:
        yield "bias", b.sum(1)


def _sums(call: Call, a: torch.Tensor, b: torch.Tensor) -> Sums | None:
    positions, inputs, outputs = a.shape[1], a.shape[2], b.shape[2]
    share = positions * (inputs + outputs) / (inputs * outputs)
    if positions == 1 or share < PRODUCTS_SHARE or "weight" not in call.places:
        return _from_products(call, a, b)
    return None


def _from_products(call: Call, a: torch.Tensor, b: torch.Tensor) -> Sums:
    yield from _bias(call, b)
    if "weight" not in call.places:
        return
    if a.shape[1] == 1:
        squared = a.square().sum((1, 2)) * b.square().sum((1, 2))
    else:
        squared = (torch.bmm(a, a.mT) * torch.bmm(b, b.mT)).sum((1, 2))
    yield "weight", squared, b.flatten(0, 1).T @ a.flatten(0, 1)


def _bias(call: Call, b: torch.Tensor) -> Sums:
    if "bias" in call.places:
        own = b.sum(1)
        yield "bias", own.square().sum(1), own.sum(0)


linear = Operation(("input", "weight", "bias"), _split, _each, _sums)
