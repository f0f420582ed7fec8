"""Per-sample losses: the one seam between the engine and whatever a user trains."""

from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from moso import errors
from moso.tasks import Loss as Loss


class LossModule(nn.Module):
    """A model and its loss as one module, so that `functional_call` can replace the model's parameters."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch: Any) -> torch.Tensor:
        """One loss per sample, `[batch]`."""
        losses = self.loss(self.model, batch)
        if not isinstance(losses, torch.Tensor) or losses.ndim != 1:
            shape = tuple(losses.shape) if isinstance(losses, torch.Tensor) else type(losses).__name__
            raise errors.LossInvalid(f"the loss must give one number per sample, a tensor [batch], not {shape}")
        return losses


@dataclass(frozen=True)
class Collated:
    """A batch that cannot be cut into samples: graphs in one large graph, bags with offsets, objects.

    Attributes:
        inner: What the user's collate function made of the samples.
        count: How many samples it was made of.
        again: Makes the batch of the samples from one position to another, both counted within this batch.
    """

    inner: Any
    count: int
    again: Callable[[int, int], "Collated"]


def is_sliceable(batch: Any, count: int) -> bool:
    """Whether a batch of `count` samples is made of tensors whose first dimension is the samples.

    >>> is_sliceable({"x": torch.zeros(3, 2), "name": "a"}, 3), is_sliceable((torch.zeros(2, 9), torch.zeros(3)), 3)
    (True, False)
    """
    found = list(leaves(batch))
    tensors = [leaf for leaf in found if isinstance(leaf, torch.Tensor)]
    plain = all(isinstance(leaf, torch.Tensor | str | bytes | int | float | None) for leaf in found)
    return plain and bool(tensors) and all(tensor.ndim > 0 and len(tensor) == count for tensor in tensors)


def leaves(batch: Any) -> Iterator[Any]:
    """What a batch of any structure holds, however nested."""
    if isinstance(batch, Mapping | UserDict):
        for part in batch.values():
            yield from leaves(part)
    elif isinstance(batch, tuple | list):
        for part in batch:
            yield from leaves(part)
    else:
        yield batch


def batch_length(batch: Any) -> int:
    """How many samples a batch of any structure holds.

    >>> batch_length({"inputs": torch.zeros(3, 2), "labels": torch.zeros(3)})
    3
    """
    if isinstance(batch, Collated):
        return batch.count
    for leaf in leaves(batch):
        if isinstance(leaf, torch.Tensor):
            return len(leaf)
    raise errors.WrongType(f"a batch of type {type(batch).__name__} holds no tensor to count samples by")


def map_tensors(change: Callable[[torch.Tensor], torch.Tensor], batch: Any) -> Any:
    """A batch of any structure with `change` applied to its tensors.

    >>> map_tensors(lambda tensor: tensor + 1, {"inputs": (torch.tensor([1]), "a name")})
    {'inputs': (tensor([2]), 'a name')}
    """
    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, Collated):
        return replace(batch, inner=map_tensors(change, batch.inner))
    if isinstance(batch, Mapping):
        changed = {name: map_tensors(change, part) for name, part in batch.items()}
        # Hugging Face's batches have attributes of their own that a loss may use.
        return type(batch)(changed) if isinstance(batch, UserDict) else changed
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(map_tensors(change, part) for part in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(map_tensors(change, part) for part in batch)
    return batch


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in float64, where sums are taken; on the CPU if its own device knows no float64.

    >>> wide(torch.ones(2)).dtype
    torch.float64
    """
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).to(torch.float64)


def part_of(batch: Any, start: int, stop: int) -> Any:
    """The batch of the samples from `start` to `stop`."""
    if isinstance(batch, Collated):
        return batch if (start, stop) == (0, batch.count) else batch.again(start, stop)
    return map_tensors(lambda tensor: tensor[start:stop], batch)


def one_of(batch: Any, number: int) -> Any:
    """The batch of one that holds sample `number`."""
    return part_of(batch, number, number + 1)


def to_device(batch: Any, device: torch.device) -> Any:
    """The batch with its tensors, and objects that know how to move, on `device`."""
    if isinstance(batch, Collated):
        inner = batch.inner.to(device) if hasattr(batch.inner, "to") else to_device(batch.inner, device)
        return Collated(inner, batch.count, lambda start, stop: to_device(batch.again(start, stop), device))
    return map_tensors(lambda tensor: tensor.to(device, non_blocking=True), batch)
