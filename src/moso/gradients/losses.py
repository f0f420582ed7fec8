"""Per-sample losses: the one interface between the engine and what a user trains."""

from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from moso import errors
from moso.batch import Batch, Shared
from moso.tasks import Loss as Loss


class LossModule(nn.Module):
    """A model and its loss as one module, so that `functional_call` can replace the model's parameters."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch: Batch) -> torch.Tensor:
        """Return one loss per sample, ``[batch]``.

        Raises:
            LossInvalid: The loss is no tensor of one dimension.
        """
        losses = self.loss(self.model, batch)
        if not isinstance(losses, torch.Tensor) or losses.ndim != 1:
            shape = tuple(losses.shape) if isinstance(losses, torch.Tensor) else type(losses).__name__
            raise errors.LossInvalid(f"the loss must give one number per sample, a tensor [batch], not {shape}")
        return losses


@dataclass(frozen=True)
class Collated:
    """A batch that cannot be sliced into samples: graphs merged into one, bags with offsets, objects.

    Attributes:
        inner: What the user's collate function returned.
        count: Number of samples in it.
        again: Collates the samples from `start` to `stop` again, both counted within this batch.
    """

    inner: Batch
    count: int
    again: Callable[[int, int], "Collated"]


def is_sliceable(batch: Batch, count: int) -> bool:
    """Return whether all tensors of a batch of `count` samples have the samples as their first dimension.

    Example:
        >>> is_sliceable({"x": torch.zeros(3, 2), "name": "a"}, 3), is_sliceable((torch.zeros(2, 9), torch.zeros(3)), 3)
        (True, False)
    """
    found = list(leaves(batch))
    tensors = [leaf for leaf in found if isinstance(leaf, torch.Tensor)]
    plain = all(isinstance(leaf, torch.Tensor | Shared | str | bytes | int | float | None) for leaf in found)
    return plain and bool(tensors) and all(tensor.ndim > 0 and len(tensor) == count for tensor in tensors)


def leaves(batch: Batch) -> Iterator[object]:
    """Yield the leaves of a batch of nested mappings, tuples and lists."""
    if isinstance(batch, Mapping | UserDict):
        for part in batch.values():
            yield from leaves(part)
    elif isinstance(batch, tuple | list):
        for part in batch:
            yield from leaves(part)
    else:
        yield batch


def batch_length(batch: Batch) -> int:
    """Return the number of samples in a batch of any structure.

    Raises:
        WrongType: The batch holds no tensor.

    Example:
        >>> batch_length({"inputs": torch.zeros(3, 2), "labels": torch.zeros(3)})
        3
    """
    if isinstance(batch, Collated):
        return batch.count
    for leaf in leaves(batch):
        if isinstance(leaf, torch.Tensor):
            return len(leaf)
    raise errors.WrongType(f"a batch of type {type(batch).__name__} holds no tensor to count samples by")


def map_tensors(change: Callable[[torch.Tensor], torch.Tensor], batch: Batch) -> Batch:
    """Apply `change` to all tensors of a batch of any structure.

    Example:
        >>> map_tensors(lambda tensor: tensor + 1, {"inputs": (torch.tensor([1]), "a name")})
        {'inputs': (tensor([2]), 'a name')}
    """
    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, Collated):
        return replace(batch, inner=map_tensors(change, batch.inner))
    if isinstance(batch, Mapping):
        changed = {name: map_tensors(change, part) for name, part in batch.items()}
        # The batch classes of Hugging Face have attributes that a loss may use.
        return type(batch)(changed) if isinstance(batch, UserDict) else changed
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(map_tensors(change, part) for part in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(map_tensors(change, part) for part in batch)
    return batch


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Convert a tensor to float64, in which sums are taken; on the CPU if its device does not support float64.

    Example:
        >>> wide(torch.ones(2)).dtype
        torch.float64
    """
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).to(torch.float64)


def part_of(batch: Batch, start: int, stop: int) -> Batch:
    """Return the batch of the samples from `start` to `stop`."""
    if isinstance(batch, Collated):
        return batch if (start, stop) == (0, batch.count) else batch.again(start, stop)
    return map_tensors(lambda tensor: tensor[start:stop], batch)


def one_of(batch: Batch, number: int) -> Batch:
    """Return a batch of one: sample `number`."""
    return part_of(batch, number, number + 1)


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Move a batch's tensors, and a collated object with a method `to`, to `device`."""
    if isinstance(batch, Collated):
        inner = batch.inner.to(device) if hasattr(batch.inner, "to") else to_device(batch.inner, device)
        return Collated(inner, batch.count, lambda start, stop: to_device(batch.again(start, stop), device))
    return map_tensors(lambda tensor: tensor.to(device, non_blocking=True), batch)
