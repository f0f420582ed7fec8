"""A network, its samples and its loss, in the precision that is asked for."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only
from torch.utils.data import default_collate

Loss = Callable[[nn.Module, Any], torch.Tensor]
Collate = Callable[[list[Any]], Any]
Checkpoint = tuple[dict[str, torch.Tensor], float]
# Weights that start at zero or one (adapters, layer scales, norms) would hide mistakes: all are moved by this much.
MOVED = 0.05


@dataclass(frozen=True)
class Network:
    """How a network and its samples are made, in float32, from torch's global generator.

    Args:
        description: What it is, in a few words.
        build: A network with fresh weights.
        data: That many samples, as items of a map-style dataset.
        loss: `loss(model, batch) -> [batch]`.
        collate: Makes a batch of a list of items.
    """

    description: str
    build: Callable[[], nn.Module]
    data: Callable[[int], list[Any]]
    loss: Loss
    collate: Collate = default_collate


@dataclass(frozen=True)
class Problem:
    """A network in evaluation mode with its samples, all floating-point numbers of one precision."""

    model: nn.Module
    items: Sequence[Any]
    loss: Loss
    collate: Collate = default_collate

    def batches(self, size: int) -> Iterator[Any]:
        """The samples in batches of `size`, in order."""
        for begin in range(0, len(self.items), size):
            yield self.collate(list(self.items[begin : begin + size]))


def make(network: Network, dtype: torch.dtype = torch.float32, seed: int = 0, samples: int = 32) -> Problem:
    """The network's problem.

    Weights and samples are drawn in float32 and then converted, so that every precision has the same ones.
    """
    with drawn_from(seed):
        items = [cast(item, dtype) for item in network.data(samples)]
    return Problem(built(network, dtype, seed), items, network.loss, network.collate)


def built(network: Network, dtype: torch.dtype, seed: int) -> nn.Module:
    """The network with the weights of this seed, no weight at zero or one."""
    with drawn_from(seed + 1000):
        model = network.build()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=MOVED)
    for module in model.modules():
        for store in (module._parameters, module._buffers):
            for value in store.values():
                if value is not None:
                    value.data = cast(value.data, dtype)
    return model.eval()


def checkpoints(network: Network, dtype: torch.dtype, seed: int = 0, count: int = 2) -> list[Checkpoint]:
    """States of `count` networks with different weights and learning rates, the first of them the problem's own."""
    return [(built(network, dtype, seed + number).state_dict(), 0.1 / (1 + number)) for number in range(count)]


def cast(item: Any, dtype: torch.dtype) -> Any:
    """An item of any structure with its floating-point tensors in `dtype`, and its complex ones in the like of it.

    >>> cast({"x": torch.ones(1), "y": 3}, torch.float64)
    {'x': tensor([1.], dtype=torch.float64), 'y': 3}
    """

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_complex():
            return tensor.to(dtype.to_complex())
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    return tree_map_only(torch.Tensor, change, item)


@contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """Torch's global generator starts at this seed, and is afterwards as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
