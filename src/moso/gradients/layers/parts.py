"""What a closed form is given, and what it gives."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import log2
from typing import Any, Literal

import torch

# Where the samples of a batch are in a call's input: its first dimension (alone, or merged with others that follow),
# its second, or nowhere because the input is the same for all samples (positions of a sequence).
Layout = Literal["first", "second", "shared"]
# From which row of a parameter to which.
Rows = tuple[int, int]
# Of each parameter that a call uses, by its role ("weight", "bias"): the gradients of single samples.
Each = Iterator[tuple[str, torch.Tensor]]
# The same in two sums: squared norms [batch], and the gradient of the whole batch.
Sums = Iterator[tuple[str, torch.Tensor, torch.Tensor]]
# Numbers of single samples' gradients that exist at one time: few enough for a processor's cache, and not so few that
# beginning takes longer than doing.
AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Place:
    """A parameter, or some of its rows: attention keeps three matrices in one."""

    name: str
    rows: Rows | None = None


@dataclass(frozen=True)
class Call:
    """One call of an operation that is linear in its parameters: how it was called, for how many samples."""

    operation: "Operation"
    function: Callable[..., torch.Tensor]
    given: Mapping[str, Any]
    places: Mapping[str, Place]
    batch: int
    # Whether samples are in the second dimension.
    second: bool = False

    @property
    def a(self) -> torch.Tensor:
        """The input."""
        tensor: torch.Tensor = self.given["input"]
        return tensor

    def by_sample(self, tensor: torch.Tensor, item: int) -> torch.Tensor:
        """`[batch, positions, *item]` of an input or output gradient whose last `item` dimensions belong together."""
        if self.second:
            tensor = tensor.movedim(1, 0)
        return tensor.reshape(self.batch, -1, *tensor.shape[tensor.ndim - item :])

    def again(self, **other: Any) -> torch.Tensor:
        """The same call with other arguments."""
        return self.function(**{**self.given, **other})


@dataclass(frozen=True)
class Operation:
    """A function of PyTorch that is linear in its parameters, and its closed forms.

    `split(call, b)` gives input and output gradient `[batch, positions, ...]`; `each` the gradients of single samples
    from a slice of both; `sums`, where it is cheaper, norms and total without them.
    """

    arguments: tuple[str, ...]
    split: Callable[[Call, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
    each: Callable[[Call, torch.Tensor, torch.Tensor], Each]
    sums: Callable[[Call, torch.Tensor, torch.Tensor], Sums | None] = lambda call, a, b: None
    # Whether this call can be taken apart at all; its arguments may say otherwise.
    holds: Callable[[Mapping[str, Any]], bool] = lambda given: True


def chunks(call: Call, role: str, batch: int) -> Iterator[slice]:
    """Parts of a batch whose gradients by one parameter may exist at one time.

    As many samples as a power of two, the nearest to what fits: a processor's threads share them evenly.
    """
    rows = 2 ** max(0, round(log2(AT_ONCE / max(1, call.given[role].numel()))))
    return (slice(start, start + rows) for start in range(0, batch, rows))


def from_each(call: Call, a: torch.Tensor, b: torch.Tensor) -> Sums:
    """Norms and totals from the gradients of single samples."""
    role = "weight" if "weight" in call.places else "bias"
    for part in chunks(call, role, len(b)):
        for name, own in call.operation.each(call, a[part], b[part]):
            if name in call.places:
                yield name, within(b, part, torch.linalg.vector_norm(own.flatten(1), dim=1).square()), own.sum(0)


def within(b: torch.Tensor, part: slice, values: torch.Tensor) -> torch.Tensor:
    """`[batch]`, nothing but in this part."""
    whole = b.new_zeros(len(b))
    whole[part] = values
    return whole
