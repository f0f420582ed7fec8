"""Parameters that are contracted with a sample's tensor: matrix products, `torch.einsum`, `F.bilinear`.

The gradient with respect to one factor of a product is the product of all other factors with the output gradient,
keeping the samples' index: for `y[b, o] = sum_i x[b, i] W[i, o]` it is `g[b, i, o] = x[b, i] b[b, o]`.
"""

from collections.abc import Mapping
from typing import Any

import torch

from moso.gradients.layers.elementwise import Chosen, reduced
from moso.gradients.layers.linear import product
from moso.gradients.layers.operation import Arguments, Call, Each, IsPlace, Operation


def _sides(call: Call, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return input and output gradient, with the input's leading dimensions broadcast to those of the output."""
    leading = b.shape[:-2]
    a = call.a.expand(*leading, *call.a.shape[-2:])
    return call.sample_first(a), call.sample_first(b)


def _from_right(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    yield "weight", reduced(a.mT.conj() @ b, call, call.given["weight"].shape)


def _from_left(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    yield "weight", reduced(b @ a.mT.conj(), call, call.given["weight"].shape)


def _has_matrices(given: Mapping[str, Any]) -> bool:
    return bool(given["input"].ndim > 2 and given["weight"].ndim >= 2)


on_the_right = Operation(
    ("input", "weight"), _sides, _from_right, holds=_has_matrices,
    along=lambda call, b, values: (call.a @ values["weight"]).conj() * b,
)  # fmt: skip
on_the_left = Operation(
    ("input", "weight"), _sides, _from_left, holds=_has_matrices,
    along=lambda call, b, values: (values["weight"] @ call.a).conj() * b,
)  # fmt: skip


def _choose(given: Arguments, is_place: IsPlace) -> Chosen:
    left, right = given["input"], given["other"]
    if is_place(left) == is_place(right):
        return None
    if is_place(left):
        return on_the_left, {"input": right, "weight": left}
    plain = right.ndim == 2 and not right.is_complex() and left.ndim >= 2
    return (product if plain else on_the_right), {"input": left, "weight": right}


def _unused(*_: Any) -> Any:
    raise AssertionError("an operation that stands for others is never split itself")


matmul = Operation(("input", "other"), _unused, _unused, choose=_choose, renamed={"tensor2": "other", "mat2": "other"})


def _labels(given: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the einsum labels of the sample's operand, the parameter and the output, with ellipses expanded."""
    sides = given["equation"].replace(" ", "")
    if "->" not in sides:
        raise RuntimeError("an einsum without '->' has no closed form here")
    inputs, output = sides.split("->")
    operands = inputs.split(",")
    ranks = [operand.ndim for operand in given["operands"]]
    free = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in sides]
    most = max(rank - len(own.replace("...", "")) for rank, own in zip(ranks, operands, strict=True))
    written = []
    for rank, own in zip(ranks, operands, strict=True):
        count = rank - len(own.replace("...", ""))
        written.append(own.replace("...", "".join(free[most - count : most])))
    output = output.replace("...", "".join(free[:most]))
    number = given["number"]
    return written[1 - number], written[number], output


def _einsum_split(call: Call, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    own, _, output = _labels(call.given)
    where = 1 if call.layout == "second" else 0
    label = output[where]
    if call.layout not in ("first", "second") or b.shape[where] != call.batch or label not in own:
        raise RuntimeError("an einsum over samples that are merged with other dimensions has no closed form here")
    return call.a.movedim(own.index(label), 0), b.movedim(where, 0)


def _einsum_each(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    own, weight, output = _labels(call.given)
    label = output[1 if call.layout == "second" else 0]
    first, last = (label + side.replace(label, "") for side in (own, output))
    if label in weight or not set(weight) <= set(own) | set(output):
        raise RuntimeError("an einsum whose parameter has dimensions of its own has no closed form here")
    yield "weight", torch.einsum(f"{first},{last}->{label}{weight}", a.conj(), b)


def _einsum_along(call: Call, b: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
    operands = [call.a, values["weight"]] if call.given["number"] else [values["weight"], call.a]
    return torch.einsum(call.given["equation"], *operands).conj() * b


def _choose_einsum(given: Arguments, is_place: IsPlace) -> Chosen:
    operands = given.get("first"), *([given["second"]] if "second" in given else [])
    if isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    if len(operands) != 2 or is_place(operands[0]) == is_place(operands[1]) or "third" in given:
        return None
    number = int(is_place(operands[1]))
    shown = {"equation": given["equation"], "operands": operands, "number": number}
    return contracted, {**shown, "input": operands[1 - number], "weight": operands[number]}


contracted = Operation(("equation", "operands"), _einsum_split, _einsum_each, along=_einsum_along)
einsum = Operation(("equation", "first", "second", "third"), _unused, _unused, choose=_choose_einsum)


def _bilinear_split(call: Call, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = call.by_sample(call.a, 1), call.by_sample(call.given["second"], 1)
    return torch.cat([first, second], 2), call.by_sample(b, 1)


def _bilinear_each(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    if "weight" in call.places:
        first, second = torch.split(a, list(call.given["weight"].shape[1:]), 2)
        pairs = torch.einsum("bti,btj->btij", first, second)
        yield "weight", torch.einsum("bto,btij->boij", b, pairs)
    if "bias" in call.places:
        yield "bias", b.sum(1)


def _bilinear_along(call: Call, b: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
    bias = values.get("bias")
    return torch.nn.functional.bilinear(call.a, call.given["second"], values["weight"], bias) * b


bilinear = Operation(
    ("input", "second", "weight", "bias"), _bilinear_split, _bilinear_each, along=_bilinear_along,
    renamed={"input1": "input", "input2": "second"},
)  # fmt: skip
