"""Distributed training and scoring of one network: each process takes a share, and gradients are averaged or summed.

`torchrun` starts the processes; PyTorch's DistributedDataParallel averages the gradients. The mean over a batch is the
mean over all its samples, however they were shared. Batch-norm sees only the share of its own process, as always with
DistributedDataParallel, and the running statistics of rank 0 are kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from moso import errors

T = TypeVar("T")


@dataclass(frozen=True)
class Team:
    """Rank of this process and number of processes; only rank 0 writes files.

    Example:
        >>> Team().share(np.arange(4)).tolist(), Team(1, 2).share(np.arange(5)).tolist()
        ([0, 1, 2, 3], [3, 4])
    """

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files."""
        return self.rank == 0

    def share(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return this process's share of a batch."""
        return positions if self.size == 1 else np.array_split(positions, self.size)[self.rank]

    def learner(self, model: nn.Module, smallest: int) -> nn.Module:
        """Return the network to train: itself, or wrapped in DistributedDataParallel.

        Args:
            model: The network.
            smallest: Least number of samples of a batch.

        Raises:
            ExecutorUnsuitable: The smallest batch has fewer samples than there are processes.
        """
        if self.size == 1:
            return model
        if smallest < self.size:
            raise errors.ExecutorUnsuitable(
                f"batches of {smallest} samples cannot be shared by {self.size} processes; give a larger --batch-size"
            )
        device = next(model.parameters()).device
        # A barrier: all processes must have read the checkpoint before rank 0 writes it again.
        dist.barrier()
        return DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)

    def mean(self, losses: torch.Tensor, count: int) -> torch.Tensor:
        """Return the loss to differentiate; its average over processes is the mean over the batch's `count` samples."""
        return losses.mean() if self.size == 1 else losses.sum() * (self.size / count)

    def average(self, value: torch.Tensor) -> float:
        """Return the average of a number over processes."""
        if self.size > 1:
            value = value.detach().clone()
            dist.all_reduce(value)
            value /= self.size
        return float(value.detach())

    def add_up(self, tensors: Iterable[torch.Tensor]) -> None:
        """Sum every tensor over processes, in place."""
        if self.size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def gathered(self, own: T) -> list[T]:
        """Return the values of all processes, by rank, in every process.

        Example:
            >>> Team().gathered(3)
            [3]
        """
        found: list[Any] = [own] * self.size
        if self.size > 1:
            dist.all_gather_object(found, own)
        return found

    def agreed(self, own: T) -> T:
        """Return rank 0's value in every process."""
        said: list[Any] = [own]
        if self.size > 1:
            dist.broadcast_object_list(said, src=0)
        found: T = said[0]
        return found

    def address(self, *parts: object) -> tuple[Any, ...]:
        """Return the address of a random draw, which differs between processes."""
        return parts if self.size == 1 else (*parts, self.rank)


ALONE = Team()
