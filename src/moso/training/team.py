"""Several processes that train and score one network: each takes a share, and gradients are averaged or added up.

`torchrun` starts them; PyTorch's DistributedDataParallel does the averaging. The mean over a batch is that over all its
samples, however they were shared. Batch-norm sees the share of its own process, as it does wherever that wrapper is
used, and the running statistics that are kept are the first one's.
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
    """Which of how many processes this one is; the first one writes what is written.

    >>> Team().share(np.arange(4)).tolist(), Team(1, 2).share(np.arange(5)).tolist()
    ([0, 1, 2, 3], [3, 4])
    """

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes."""
        return self.rank == 0

    def share(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """This process's share of a batch."""
        return positions if self.size == 1 else np.array_split(positions, self.size)[self.rank]

    def learner(self, model: nn.Module, smallest: int) -> nn.Module:
        """The network as it is trained: itself, or together with its copies in the other processes."""
        if self.size == 1:
            return model
        if smallest < self.size:
            raise errors.ExecutorUnsuitable(
                f"batches of {smallest} samples cannot be shared by {self.size} processes; give a larger --batch-size"
            )
        device = next(model.parameters()).device
        # Everybody has read where to go on before the first one writes there again.
        dist.barrier()
        return DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)

    def mean(self, losses: torch.Tensor, count: int) -> torch.Tensor:
        """What is differentiated: averaged over processes it is the mean over the `count` samples of the batch."""
        return losses.mean() if self.size == 1 else losses.sum() * (self.size / count)

    def average(self, value: torch.Tensor) -> float:
        """The average over processes of a number."""
        if self.size > 1:
            value = value.detach().clone()
            dist.all_reduce(value)
            value /= self.size
        return float(value.detach())

    def add_up(self, tensors: Iterable[torch.Tensor]) -> None:
        """Add to every tensor, in place, those of the other processes."""
        if self.size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def gathered(self, own: T) -> list[T]:
        """What each process has, in their order, in all of them.

        >>> Team().gathered(3)
        [3]
        """
        found: list[Any] = [own] * self.size
        if self.size > 1:
            dist.all_gather_object(found, own)
        return found

    def agreed(self, own: T) -> T:
        """What the first process has, in all of them."""
        said: list[Any] = [own]
        if self.size > 1:
            dist.broadcast_object_list(said, src=0)
        found: T = said[0]
        return found

    def address(self, *parts: Any) -> tuple[Any, ...]:
        """Where this process draws at random; not where another one draws."""
        return parts if self.size == 1 else (*parts, self.rank)


ALONE = Team()
