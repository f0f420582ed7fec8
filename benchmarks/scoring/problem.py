"""A network somewhere in its training, its loss and its samples: what every engine is given."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import update_bn

from moso.gradients import Loss, batch_length, map_tensors
from moso.randomness import seeded

Batches = Sequence[Any]
WARM_STEPS = 30
LEARNING_RATE = 0.02


@dataclass(frozen=True)
class Problem:
    """A network in evaluation mode, at parameters that training has led to; `samples` is one batch of all of them."""

    network: str
    model: nn.Module
    loss: Loss
    samples: Any
    batch: int

    @property
    def size(self) -> int:
        """How many samples there are."""
        return batch_length(self.samples)

    def batches(self, count: int | None = None) -> list[Any]:
        """The first `count` samples in batches."""
        end = self.size if count is None else min(count, self.size)
        return [
            map_tensors(lambda tensor, i=begin: tensor[i : min(i + self.batch, end)], self.samples)  # type: ignore[misc]
            for begin in range(0, end, self.batch)
        ]

    def double(self) -> "Problem":
        """The same in float64."""
        samples = map_tensors(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor, self.samples)
        return replace(self, model=deepcopy(self.model).double(), samples=samples)

    def trained(self, steps: int = WARM_STEPS) -> "Problem":
        """The same after `steps` updates of training: a network that has begun to tell samples apart."""
        model = deepcopy(self.model)
        with seeded("benchmark", "training", self.network):
            learner = Learner(model, self.loss)
            batches = self.batches()
            for step in range(steps):
                learner.step(batches[step % len(batches)])
            # Running statistics lag behind such a short training, and some networks explode on stale ones.
            update_bn(batches, model)
        return replace(self, model=model.eval())


class Learner:
    """Ordinary training: the network in training mode, SGD with momentum."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        self.model, self.loss = model.train(), loss
        self.optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)

    def step(self, batch: Any) -> None:
        """One update."""
        self.optimizer.zero_grad()
        self.loss(self.model, batch).mean().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def epoch(self, batches: Batches) -> None:
        """One update a batch."""
        for batch in batches:
            self.step(batch)


def to_device(problem: Problem, device: torch.device) -> Problem:
    """The same on another device."""
    samples = map_tensors(lambda tensor: tensor.to(device), problem.samples)
    return replace(problem, model=problem.model.to(device), samples=samples)
