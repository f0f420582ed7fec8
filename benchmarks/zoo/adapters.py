"""Low-rank adapters: LoRA, and DoRA, which gives every row of the adapted weight a learned length."""

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.zoo.plain import CLASSES, FEATURES, WIDTH, vectors
from benchmarks.zoo.problem import Network
from benchmarks.zoo.routed import class_loss


class Adapted(nn.Module):
    """A frozen linear layer and what is trained in its place."""

    def __init__(self, base: nn.Linear, rank: int, dora: bool) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        self.magnitude = nn.Parameter(base.weight.detach().norm(dim=1)) if dora else None

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`[..., in]` to `[..., out]`."""
        if self.magnitude is None:
            outputs: torch.Tensor = self.base(inputs) + self.up(self.down(inputs))
            return outputs
        weight = self.base.weight + self.up.weight @ self.down.weight
        return F.linear(inputs, weight * (self.magnitude / weight.norm(dim=1))[:, None], self.base.bias)


def adapt(model: nn.Module, names: tuple[str, ...], rank: int = 4, dora: bool = False) -> nn.Module:
    """The network, frozen, with adapters in place of all linear layers of these names."""
    model.requires_grad_(False)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if name in names and isinstance(child, nn.Linear):
                setattr(parent, name, Adapted(child, rank, dora))
    return model


def dora() -> nn.Module:
    """Two layers, both with a DoRA adapter."""
    network = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.Tanh(), nn.Linear(WIDTH, CLASSES))
    return adapt(network, ("0", "2"), dora=True)


NETWORKS = {"dora": Network("DoRA, written by hand", dora, vectors, class_loss)}
