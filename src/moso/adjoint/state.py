"""The state of a training run between two updates, and its adjoint: the derivative with respect to each tensor.

The state is everything that the next update reads and writes: the parameters, the optimiser's slots (SGD's momentum,
Adam's two moments) and the buffers, including batch-norm's running statistics.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from moso.data.views import tree_bytes
from moso.evidence.tensor_tree import flattened, nested
from moso.training.optimizers import Optimizer, Slots, Tensors

_SLOT = "slot:"


@dataclass(frozen=True)
class TrainingState:
    """The state of a run after update `step`.

    Attributes:
        step: Number of updates so far.
        trained: The parameters, by name.
        slots: The optimiser's slots, `{slot: {parameter: tensor}}`; slots that are still zero are missing.
        buffers: The network's buffers, by name.
        counts: Number of updates per parameter.
    """

    step: int
    trained: Tensors
    slots: Slots
    buffers: Tensors
    counts: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, model: nn.Module, optimizer: Optimizer, step: int) -> "TrainingState":
        """Copy the state of a network and its optimiser after update `step`."""
        trained = {name: value.detach().clone() for name, value in optimizer.parameters.items()}
        slots = {slot: {name: value.clone() for name, value in held.items()} for slot, held in optimizer.slots.items()}
        buffers = {name: value.detach().clone() for name, value in model.named_buffers()}
        return cls(step, trained, slots, buffers, dict(optimizer.counts))

    def slot(self, slot: str, name: str) -> torch.Tensor:
        """Return a slot of a parameter; zeros before the optimiser first used it."""
        found = self.slots.get(slot, {}).get(name)
        return torch.zeros_like(self.trained[name]) if found is None else found

    def size(self) -> int:
        """Return the size of the state in bytes."""
        held = [*self.trained.values(), *self.buffers.values(), *(v for s in self.slots.values() for v in s.values())]
        return sum(value.numel() * value.element_size() for value in held)


@dataclass(frozen=True)
class Adjoint:
    """The derivative of a risk with respect to each tensor of a state.

    Attributes:
        trained: By parameter name.
        slots: `{slot: {parameter: tensor}}`.
        buffers: By buffer name.
    """

    trained: Tensors
    slots: Slots
    buffers: Tensors

    def tensors(self) -> Tensors:
        """Return all tensors in one flat dictionary, to be saved."""
        slots = {f"{_SLOT}{slot}": values for slot, values in self.slots.items()}
        return flattened({"trained": self.trained, "buffers": self.buffers, **slots}, "|")

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, torch.Tensor]) -> "Adjoint":
        """Restore an adjoint from the dictionary that `tensors` returned.

        Example:
            >>> one = Adjoint({"weight": torch.ones(1)}, {"momentum_buffer": {"weight": torch.zeros(1)}}, {})
            >>> Adjoint.from_tensors(one.tensors()) == one
            True
        """
        found = nested(tensors, "|")
        trained, buffers = found.pop("trained", {}), found.pop("buffers", {})
        return cls(trained, {part.removeprefix(_SLOT): values for part, values in found.items()}, buffers)


def digest(position: Mapping[str, torch.Tensor]) -> str:
    """Return a hash of all bits of a checkpoint's tensors, as a hexadecimal string.

    Example:
        >>> digest({"a": torch.zeros(2)}) == digest({"a": torch.tensor([0.0, 1e-30])})
        False
    """
    found = hashlib.blake2b(digest_size=16)
    for name in sorted(position):
        found.update(name.encode())
        found.update(tree_bytes(position[name]))
    return found.hexdigest()


def differentiable(buffers: Tensors) -> Tensors:
    """Return the floating-point buffers, which derivatives can pass through; counters are left out."""
    return {name: value for name, value in buffers.items() if value.is_floating_point()}
