"""The interface of closed forms: from a call's input and output gradient to per-sample gradients or their sums."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import log2
from typing import Any, Literal

import torch

# Where the samples of a batch are in a call's input:
#   first    its first dimension, alone or merged with dimensions that follow (sample-major rows)
#   second   its second dimension
#   inner    its first dimension, merged with a dimension before the samples (position-major rows)
#   rows     its first dimension holds rows that the network selected; the call knows the sample of each row
Layout = Literal["first", "second", "inner", "rows"]
# First row and end row (exclusive) of a part of a parameter.
Rows = tuple[int, int]
# Role of a parameter ("weight", "bias"), and its per-sample gradients, ``[batch, ...]``.
Each = Iterator[tuple[str, torch.Tensor]]
# Role of a parameter, squared norms of its per-sample gradients, ``[batch]``, and the gradient of the whole batch.
Sums = Iterator[tuple[str, torch.Tensor, torch.Tensor]]
# Weights of squares by role, each of the parameter's shape.
Metric = Mapping[str, torch.Tensor]
# A function of PyTorch with its arguments, of every kind: by position, and by name.
Function = Callable[..., Any]
Positional = tuple[Any, ...]
Arguments = dict[str, Any]
# Returns whether an argument of a call is a parameter, or derived from parameters.
IsPlace = Callable[[object], bool]
# Scalars of per-sample gradients that exist at one time: few enough for a processor's cache, enough to hide the
# overhead per kernel.
AT_ONCE = 1 << 20
# Numbers whose squares are summed at a time.
BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Place:
    """A tensor used in calls: a parameter, some of its rows, or a tensor derived from parameters alone.

    Attributes:
        names: The parameters that the tensor is derived from.
        tensor: The tensor with its autograd graph; None for a parameter itself.
        rows: For attention, which keeps three matrices in one parameter, the rows of the parameter that this is.
        isometric: Whether the backward pass to the parameter preserves the norm of a gradient, as a reshape does.
    """

    names: tuple[str, ...]
    tensor: torch.Tensor | None = None
    rows: Rows | None = None
    isometric: bool = True

    @property
    def name(self) -> str:
        """The first parameter; the only one, if the place is a parameter itself."""
        return self.names[0]


@dataclass(frozen=True)
class Call:
    """One call of an operation that is linear in its parameters.

    Attributes:
        operation: The operation, with its closed forms.
        function: The function that was called.
        given: The arguments of the call, by name.
        places: The parameters (or derived tensors) among the arguments, by role.
        batch: Number of samples.
        layout: Where the samples are in the input and the output.
        owners: For the layout "rows", the sample that each row belongs to, shape ``[rows]``.
    """

    operation: "Operation"
    function: Callable[..., torch.Tensor]
    given: Mapping[str, Any]
    places: Mapping[str, Place]
    batch: int
    layout: Layout = "first"
    # Only for the layout "rows".
    owners: torch.Tensor | None = None

    @property
    def a(self) -> torch.Tensor:
        """The input of the call."""
        tensor: torch.Tensor = self.given["input"]
        return tensor

    def sample_first(self, tensor: torch.Tensor) -> torch.Tensor:
        """Move the samples to the front: ``[batch, merged, ...]``; `merged` is what they were merged with."""
        match self.layout:
            case "first":
                return tensor.reshape(self.batch, -1, *tensor.shape[1:])
            case "second":
                return tensor.movedim(1, 0)
            case "inner":
                return tensor.reshape(-1, self.batch, *tensor.shape[1:]).movedim(1, 0)
        assert self.owners is not None
        order = torch.argsort(self.owners, stable=True)
        counts = torch.bincount(self.owners, minlength=self.batch)
        slots = torch.arange(len(order), device=order.device) - torch.repeat_interleave(
            counts.cumsum(0) - counts, counts
        )
        padded = tensor.new_zeros(self.batch, int(counts.max()), *tensor.shape[1:])
        padded[self.owners[order], slots] = tensor[order]
        return padded

    def by_sample(self, tensor: torch.Tensor, item: int) -> torch.Tensor:
        """Reshape an input or output gradient to ``[batch, positions, *item]``; `item` counts its last dimensions."""
        shape = tensor.shape[tensor.ndim - item :]
        if self.layout == "first":
            return tensor.reshape(self.batch, -1, *shape)
        return self.sample_first(tensor).reshape(self.batch, -1, *shape)

    def again(self, **other: Any) -> torch.Tensor:
        """Call the function again, with some arguments replaced."""
        return self.function(**{**self.given, **other})


def _alike(call: Call, b: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return `b * f(a; V)`: the call itself with a direction in place of its parameters."""
    return call.again(**values) * b


@dataclass(frozen=True)
class Operation:
    """A function of PyTorch that is linear in its parameters, with its closed forms.

    Attributes:
        arguments: Names of the function's arguments, in order.
        split: Returns input and output gradient of a call, ``[batch, positions, ...]``.
        each: Yields per-sample gradients from a slice of both.
        sums: Where cheaper, yields norms and total without forming per-sample gradients, which are scaled per sample;
            returns None where not.
        weighted_sums: The same with weights of squares by role, for those that have any.
        holds: Returns whether the closed form is valid for these arguments.
        along: Returns the elementwise products of `b` with the call's derivative along a direction.
        roles: The arguments that may be parameters.
        renamed: Maps keywords of the function to the argument names used here.
        choose: Maps arguments to another operation and its arguments, where one function stands for several; `is_place`
            returns whether an argument is a parameter or derived from parameters.
    """

    arguments: tuple[str, ...]
    split: Callable[[Call, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
    each: Callable[[Call, torch.Tensor, torch.Tensor], Each]
    sums: Callable[[Call, torch.Tensor, torch.Tensor, torch.Tensor], Sums | None] = lambda call, a, b, scales: None
    holds: Callable[[Mapping[str, Any]], bool] = lambda given: True
    along: Callable[[Call, torch.Tensor, Mapping[str, torch.Tensor]], torch.Tensor] = field(default=_alike)
    weighted_sums: Callable[[Call, torch.Tensor, torch.Tensor, torch.Tensor, Metric], Sums | None] = (
        lambda call, a, b, scales, metric: None
    )
    roles: tuple[str, ...] = ("weight", "bias")
    renamed: Mapping[str, str] = field(default_factory=dict)
    choose: "Callable[[Arguments, IsPlace], tuple[Operation, Arguments] | None] | None" = None

    def bind(
        self, args: Positional, kwargs: Mapping[str, Any], is_place: "IsPlace"
    ) -> "tuple[Operation, Arguments] | None":
        """Return the operation that a call amounts to, and its arguments by name; None without a closed form."""
        given = dict(zip(self.arguments, args, strict=False))
        given.update({self.renamed.get(name, name): value for name, value in kwargs.items()})
        found = (self, given) if self.choose is None else self.choose(given, is_place)
        return found if found is not None and found[0].holds(found[1]) else None


def chunks(numbers: int, batch: int) -> Iterator[slice]:
    """Yield slices of a batch whose per-sample gradients, of `numbers` scalars each, may exist at one time.

    A slice has the power of two of samples nearest to what fits, so that a processor's threads share them evenly.
    """
    rows = 2 ** max(0, round(log2(AT_ONCE / max(1, numbers)))) if AT_ONCE else 1
    return (slice(start, start + rows) for start in range(0, batch, rows))


def from_each(
    call: Call,
    a: torch.Tensor,
    b: torch.Tensor,
    scales: torch.Tensor,
    kept: dict[str, list[torch.Tensor]] | None = None,
    metric: Metric | None = None,
) -> Sums:
    """Yield norms and totals computed from per-sample gradients, each multiplied by its scale.

    Args:
        call: The call.
        a: Its input, ``[batch, positions, ...]``.
        b: Its output gradient, ``[batch, positions, ...]``.
        scales: One factor per sample, ``[batch]``.
        kept: If given, the per-sample gradients (not scaled) are appended to it, by role.
        metric: Weights of squares, by role, each of the parameter's shape; without one, all are 1.
    """
    weights = metric or {}
    role = "weight" if "weight" in call.places else next(iter(call.places))
    for part in chunks(call.given[role].numel(), len(b)):
        whole = part.start == 0 and part.stop >= len(b)
        some = (a, b, scales) if whole else (a[part], b[part], scales[part])
        for name, own in call.operation.each(call, *some[:2]):
            if name in call.places:
                if kept is not None:
                    kept.setdefault(name, []).append(own)
                squared = squares(own, weights.get(name)) * some[2].square()
                yield name, within(b, part, squared), weighted_sum(own, some[2])


def squares(own: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
    """Return `|g_z|^2`, ``[batch]``, of real or complex gradients ``[batch, ...]``; with weights, `sum P g^2`."""
    flat = torch.view_as_real(own.resolve_conj()).flatten(1) if own.is_complex() else own.flatten(1)
    if weights is not None:
        flat = flat * weights.flatten().sqrt().to(flat)
    # A float32 sum of a hundred thousand squares is off by 1e-5, of which `N G.g - |g|^2` makes more: sums of blocks.
    whole = flat.shape[1] - flat.shape[1] % BLOCK
    squared = _squared_norms(flat[:, whole:])
    if whole:
        squared = squared + _squared_norms(flat[:, :whole].reshape(len(flat), -1, BLOCK)).sum(1)
    return squared


def _squared_norms(rows: torch.Tensor) -> torch.Tensor:
    norms: torch.Tensor = torch.linalg.vector_norm(rows, dim=-1)
    return norms.square()


def weighted_sum(own: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return `sum_z s_z g_z` of gradients ``[batch, ...]``."""
    return (scales.to(own.dtype) @ own.flatten(1)).view(own.shape[1:])


def scaled(b: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Multiply output gradients ``[batch, ...]`` by one scale per sample."""
    return b * scales.view(-1, *[1] * (b.ndim - 1))


def within(b: torch.Tensor, part: slice, values: torch.Tensor) -> torch.Tensor:
    """Return `values` at the samples of `part`, and zeros elsewhere, ``[batch]``."""
    if part.start == 0 and part.stop >= len(b):
        return values
    whole = values.new_zeros(len(b))
    whole[part] = values
    return whole
