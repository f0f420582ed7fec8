"""The state of a training run between two updates, and the adjoint of it: the same tensors, of derivatives.

The state is everything that the next update reads and writes: the parameters, the optimiser's slots (SGD's momentum,
AdamW's two moments) and the buffers, batch-norm's running statistics among them.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from moso.data.views import tree_bytes
from moso.gradients.point import Tensors

Slots = dict[str, Tensors]
SLOTS = {"sgd": ("momentum_buffer",), "adamw": ("exp_avg", "exp_avg_sq")}


@dataclass(frozen=True)
class TrainingState:
    """What a run has after update `step`; `slots` are `{slot: {parameter: tensor}}`, without those still at zero."""

    step: int
    trained: Tensors
    slots: Slots
    buffers: Tensors

    @classmethod
    def at_start(cls, model: nn.Module) -> "TrainingState":
        """Before the first update."""
        trained = {name: value.detach().clone() for name, value in _trained(model).items()}
        return cls(0, trained, {}, _buffers(model))

    @classmethod
    def of(cls, model: nn.Module, optimizer: torch.optim.Optimizer, step: int, kind: str) -> "TrainingState":
        """A copy of what the network and the optimiser hold after update `step`."""
        trained, slots = _trained(model), dict[str, Tensors]()
        for slot in SLOTS[kind]:
            held = {name: optimizer.state[value].get(slot) for name, value in trained.items()}
            slots[slot] = {name: value.detach().clone() for name, value in held.items() if value is not None}
        copies = {name: value.detach().clone() for name, value in trained.items()}
        return cls(step, copies, slots, _buffers(model))

    def slot(self, slot: str, name: str) -> torch.Tensor:
        """A slot of a parameter: zero before the optimiser first used it."""
        found = self.slots.get(slot, {}).get(name)
        return torch.zeros_like(self.trained[name]) if found is None else found

    def size(self) -> int:
        """How many bytes it takes."""
        held = [*self.trained.values(), *self.buffers.values(), *(v for s in self.slots.values() for v in s.values())]
        return sum(value.numel() * value.element_size() for value in held)


@dataclass(frozen=True)
class Adjoint:
    """The derivative of a risk by each tensor of a state."""

    trained: Tensors
    slots: Slots
    buffers: Tensors

    def tensors(self) -> Tensors:
        """All of it under one name each, to be saved."""
        parts = {"trained": self.trained, "buffers": self.buffers, **{f"slot:{k}": v for k, v in self.slots.items()}}
        return {f"{part}|{name}": value for part, values in parts.items() for name, value in values.items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, torch.Tensor]) -> "Adjoint":
        """What `tensors` gave.

        >>> one = Adjoint({"weight": torch.ones(1)}, {"momentum_buffer": {"weight": torch.zeros(1)}}, {})
        >>> Adjoint.from_tensors(one.tensors()) == one
        True
        """
        found: dict[str, Tensors] = {"trained": {}, "buffers": {}}
        for key, value in tensors.items():
            part, _, name = key.partition("|")
            found.setdefault(part, {})[name] = value
        trained, buffers = found.pop("trained"), found.pop("buffers")
        return cls(trained, {part.removeprefix("slot:"): values for part, values in found.items()}, buffers)


def digest(position: Mapping[str, torch.Tensor]) -> str:
    """A hash of every bit of a saved position.

    >>> digest({"a": torch.zeros(2)}) == digest({"a": torch.tensor([0.0, 1e-30])})
    False
    """
    found = hashlib.blake2b(digest_size=16)
    for name in sorted(position):
        found.update(name.encode())
        found.update(tree_bytes(position[name]))
    return found.hexdigest()


def differentiable(buffers: Tensors) -> Tensors:
    """The buffers that derivatives can pass through; counters cannot."""
    return {name: value for name, value in buffers.items() if value.is_floating_point()}


def _trained(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def _buffers(model: nn.Module) -> Tensors:
    return {name: value.detach().clone() for name, value in model.named_buffers()}
