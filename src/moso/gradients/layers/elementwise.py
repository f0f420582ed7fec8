"""Parameters that are added to a sample's tensor or multiplied with it: biases, scales, position tables.

    y = x + p    g = b          y = x p    g = b x        summed over everything that p is broadcast over

Division by a parameter is multiplication by its reciprocal, and attention adds its mask to its products.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from moso.gradients.layers.operation import Arguments, Call, Each, Function, IsPlace, Operation


def reduced(full: torch.Tensor, call: Call, shape: torch.Size) -> torch.Tensor:
    """Sum gradients ``[batch, merged, ...]`` over the broadcast dimensions of a parameter, to ``[batch, *shape]``.

    Args:
        full: Gradients with respect to the broadcast parameter.
        call: The call, for its layout.
        shape: The parameter's own shape.

    Raises:
        RuntimeError: The parameter is not broadcast along the batch dimension.
    """
    second = call.layout == "second"
    leading = (1,) * (full.ndim - (not second) - len(shape)) + tuple(shape)
    # If the samples are the second dimension, the parameter may vary along the first.
    target = (leading[0], *leading[2:]) if second else (1, *leading[1:])
    if leading[int(second)] != 1:
        raise RuntimeError(f"a parameter of shape {tuple(shape)} differs from sample to sample")
    sums = [number for number, (own, size) in enumerate(zip(target, full.shape[1:], strict=True), 1) if own < size]
    return (full.sum(sums) if sums else full).reshape(len(full), *shape)


def arranged(call: Call, tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return a sample's tensor broadcast to the output's shape, ``[batch, merged, ...]``."""
    return call.sample_first(tensor.expand(like.shape))


def _split_product(call: Call, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return arranged(call, call.a, b), call.sample_first(b)


def _split_sum(call: Call, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    b = call.sample_first(b)
    return b, b


def _product(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    yield "weight", reduced(b * a.conj(), call, call.given["weight"].shape)


def _sum(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    yield "weight", reduced(b, call, call.given["weight"].shape) * call.given["factor"]


def _product_along(call: Call, b: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return b * (call.a * values["weight"]).conj()


def _sum_along(call: Call, b: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
    products: torch.Tensor = b * (values["weight"] * call.given["factor"]).conj()
    return products


multiplied = Operation(("input", "weight"), _split_product, _product, along=_product_along)
added = Operation(("input", "weight", "factor"), _split_sum, _sum, along=_sum_along)

Chosen = tuple[Operation, Arguments] | None


def _unused(*_: object) -> Any:
    raise AssertionError("an operation that stands for others is never split itself")


def _binary(choose: Callable[[Arguments, IsPlace], Chosen]) -> Operation:
    return Operation(("input", "other", "alpha"), _unused, _unused, choose=choose)


def _both(given: Mapping[str, object], is_place: IsPlace) -> tuple[torch.Tensor, torch.Tensor, bool] | None:
    """Return the sample's tensor, the parameter, and whether the parameter is the right operand."""
    left, right = given["input"], given["other"]
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor) or is_place(left) == is_place(right):
        return None
    return (left, right, True) if is_place(right) else (right, left, False)


def _sum_of(sign: int, swapped: bool = False) -> Operation:
    """Return the operation `input + sign * other`; with `swapped`, `other + sign * input`."""

    def choose(given: Arguments, is_place: IsPlace) -> Chosen:
        pair = _both(given, is_place)
        if pair is None:
            return None
        factor = sign * given.get("alpha", 1) if pair[2] else 1
        if swapped:
            factor = 1 if pair[2] else sign
        return added, {"input": pair[0], "weight": pair[1], "factor": factor}

    return _binary(choose)


def _product_of(given: Arguments, is_place: IsPlace) -> Chosen:
    pair = _both(given, is_place)
    return None if pair is None else (multiplied, {"input": pair[0], "weight": pair[1]})


_T = torch.Tensor
ELEMENTWISE: dict[Function, Operation] = {
    **dict.fromkeys((torch.add, _T.add, _T.__add__, _T.__radd__, _T.add_, _T.__iadd__), _sum_of(1)),
    **dict.fromkeys((torch.sub, torch.subtract, _T.sub, _T.__sub__, _T.sub_, _T.__isub__), _sum_of(-1)),
    _T.__rsub__: _sum_of(-1, swapped=True),
    torch.rsub: _sum_of(-1, swapped=True),
    **dict.fromkeys((torch.mul, torch.multiply, _T.mul, _T.__mul__, _T.__rmul__), _binary(_product_of)),
}  # fmt: skip
# In-place multiplications overwrite the input that the closed form needs, so it is copied first.
OVERWRITING: frozenset[Function] = frozenset({_T.mul_, _T.__imul__, _T.multiply_})
ELEMENTWISE.update(dict.fromkeys(OVERWRITING, _binary(_product_of)))
# `x / p` is `x * (1 / p)`; the reciprocal is a derived tensor.
DIVISIONS = frozenset({torch.div, torch.divide, torch.true_divide, _T.div, _T.__truediv__, _T.true_divide})


def _prelu_split(call: Call, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return call.sample_first(call.a.clamp(max=0)), call.sample_first(b)


def _prelu(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    weight = call.given["weight"]
    shape = torch.Size((len(weight), *[1] * (a.ndim - 3)))
    yield "weight", reduced(a * b, call, shape).reshape(len(b), -1)


def _prelu_along(call: Call, b: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
    weight = values["weight"].view(-1, *[1] * (call.a.ndim - 2))
    return call.a.clamp(max=0) * weight * b


def _expansion(given: Arguments, is_place: IsPlace) -> Chosen:
    return added, {"input": given["input"], "weight": given["input"], "factor": 1}


# A parameter that is expanded to every sample, such as a class token.
expansion = Operation(("input",), _unused, _unused, choose=_expansion)

prelu = Operation(("input", "weight"), _prelu_split, _prelu, along=_prelu_along)
ELEMENTWISE[torch.prelu] = prelu
ELEMENTWISE[F.prelu] = prelu
