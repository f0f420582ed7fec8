"""What a closed form is given, and what it gives."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import log2
from typing import Any, Literal

import torch

# Where the samples of a batch are in a call's input:
#   first    its first dimension, alone or merged with dimensions that follow (sample-major rows)
#   second   its second dimension
#   inner    its first dimension, merged with a dimension before them (position-major rows)
#   rows     its first dimension holds rows of samples that the network chose; the call says whose row each is
Layout = Literal["first", "second", "inner", "rows"]
# From which row of a parameter to which.
Rows = tuple[int, int]
# Of each parameter that a call uses, by its role ("weight", "bias"): the gradients of single samples.
Each = Iterator[tuple[str, torch.Tensor]]
# The same in two sums: squared norms [batch], and the gradient of the whole batch.
Sums = Iterator[tuple[str, torch.Tensor, torch.Tensor]]
# Whether an argument of a call is a parameter, or made of parameters.
IsPlace = Callable[[Any], bool]
# Numbers of single samples' gradients that exist at one time: few enough for a processor's cache, and not so few that
# beginning takes longer than doing.
AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class Place:
    """A tensor that calls meet: a parameter, some of its rows, or something computed from parameters alone.

    Attributes:
        names: The parameters that the tensor is made of.
        tensor: The tensor with its way back to the parameters; None for a parameter itself.
        rows: For attention, which keeps three matrices in one, the rows of the parameter that this is.
        isometric: Whether a gradient keeps its norm on the way back to the parameter, as through a reshape.
    """

    names: tuple[str, ...]
    tensor: torch.Tensor | None = None
    rows: Rows | None = None
    isometric: bool = True

    @property
    def name(self) -> str:
        """The first of the parameters, the only one of a place that is a parameter itself."""
        return self.names[0]


@dataclass(frozen=True)
class Call:
    """One call of an operation that is linear in its parameters: how it was called, for how many samples."""

    operation: "Operation"
    function: Callable[..., torch.Tensor]
    given: Mapping[str, Any]
    places: Mapping[str, Place]
    batch: int
    layout: Layout = "first"
    # For the layout "rows": whose row each is, [rows].
    owners: torch.Tensor | None = None

    @property
    def a(self) -> torch.Tensor:
        """The input."""
        tensor: torch.Tensor = self.given["input"]
        return tensor

    def sample_first(self, tensor: torch.Tensor) -> torch.Tensor:
        """`[batch, merged, ...]` of an input or output gradient: what was merged with the samples, then the rest."""
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
        """`[batch, positions, *item]` of an input or output gradient whose last `item` dimensions belong together."""
        shape = tensor.shape[tensor.ndim - item :]
        if self.layout == "first":
            return tensor.reshape(self.batch, -1, *shape)
        return self.sample_first(tensor).reshape(self.batch, -1, *shape)

    def again(self, **other: Any) -> torch.Tensor:
        """The same call with other arguments."""
        return self.function(**{**self.given, **other})


def _alike(call: Call, b: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """`b * f(a; V)`, the call itself with a direction in place of its parameters."""
    return call.again(**values) * b


@dataclass(frozen=True)
class Operation:
    """A function of PyTorch that is linear in its parameters, and its closed forms.

    Attributes:
        arguments: Names of the function's arguments in their order.
        split: Gives input and output gradient `[batch, positions, ...]` of a call.
        each: Gives the gradients of single samples from a slice of both.
        sums: Where that is cheaper, gives norms and total without them, gradients times a scale per sample.
        holds: Whether this call can be taken apart at all; its arguments may say otherwise.
        along: Gives the elementwise products of `b` with the call's derivative along a direction.
        roles: The arguments that may be parameters.
        renamed: Names of the function's keywords that are called otherwise here.
        choose: Turns arguments into those of another operation, where one function stands for several; `is_place`
            says whether an argument is a parameter or made of parameters.
    """

    arguments: tuple[str, ...]
    split: Callable[[Call, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
    each: Callable[[Call, torch.Tensor, torch.Tensor], Each]
    sums: Callable[[Call, torch.Tensor, torch.Tensor, torch.Tensor], Sums | None] = lambda call, a, b, scales: None
    holds: Callable[[Mapping[str, Any]], bool] = lambda given: True
    along: Callable[[Call, torch.Tensor, Mapping[str, torch.Tensor]], torch.Tensor] = field(default=_alike)
    roles: tuple[str, ...] = ("weight", "bias")
    renamed: Mapping[str, str] = field(default_factory=dict)
    choose: "Callable[[dict[str, Any], IsPlace], tuple[Operation, dict[str, Any]] | None] | None" = None

    def bind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], is_place: "IsPlace"
    ) -> "tuple[Operation, dict[str, Any]] | None":
        """The operation that this call is, and its arguments by name; None where it has no closed form."""
        given = dict(zip(self.arguments, args, strict=False))
        given.update({self.renamed.get(name, name): value for name, value in kwargs.items()})
        found = (self, given) if self.choose is None else self.choose(given, is_place)
        return found if found is not None and found[0].holds(found[1]) else None


def chunks(numbers: int, batch: int) -> Iterator[slice]:
    """Parts of a batch whose gradients, of so many numbers each, may exist at one time.

    As many samples as a power of two, the nearest to what fits: a processor's threads share them evenly.
    """
    rows = 2 ** max(0, round(log2(AT_ONCE / max(1, numbers)))) if AT_ONCE else 1
    return (slice(start, start + rows) for start in range(0, batch, rows))


def from_each(
    call: Call,
    a: torch.Tensor,
    b: torch.Tensor,
    scales: torch.Tensor,
    kept: dict[str, list[torch.Tensor]] | None = None,
) -> Sums:
    """Norms and totals from the gradients of single samples, each times its scale `[batch]`.

    Gradients themselves go to `kept`, by role and in parts of the batch, where that is given.
    """
    role = "weight" if "weight" in call.places else next(iter(call.places))
    for part in chunks(call.given[role].numel(), len(b)):
        whole = part.start == 0 and part.stop >= len(b)
        some = (a, b, scales) if whole else (a[part], b[part], scales[part])
        for name, own in call.operation.each(call, *some[:2]):
            if name in call.places:
                if kept is not None:
                    kept.setdefault(name, []).append(own)
                yield name, within(b, part, squares(own) * some[2].square()), weighted_sum(own, some[2])


def squares(own: torch.Tensor) -> torch.Tensor:
    """`|g_z|^2` of gradients `[batch, ...]`, real ones or complex ones."""
    flat = torch.view_as_real(own.resolve_conj()).flatten(1) if own.is_complex() else own.flatten(1)
    norms: torch.Tensor = torch.linalg.vector_norm(flat, dim=1)
    return norms.square()


def weighted_sum(own: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """`sum_z s_z g_z` of gradients `[batch, ...]`."""
    return (scales.to(own.dtype) @ own.flatten(1)).view(own.shape[1:])


def scaled(b: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Output gradients `[batch, ...]` times a scale per sample."""
    return b * scales.view(-1, *[1] * (b.ndim - 1))


def within(b: torch.Tensor, part: slice, values: torch.Tensor) -> torch.Tensor:
    """`[batch]`, nothing but in this part."""
    if part.start == 0 and part.stop >= len(b):
        return values
    whole = values.new_zeros(len(b))
    whole[part] = values
    return whole
