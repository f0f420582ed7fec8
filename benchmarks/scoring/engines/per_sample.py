"""What rivals that give gradients of single samples have in common: the mean gradient before, the sums after."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.scoring.engines.engine import Refused, Scores
from benchmarks.scoring.problem import Batches
from moso.gradients import Loss

Gradients = dict[str, torch.Tensor]


def plain_mean_gradient(model: nn.Module, loss: Loss, batches: Batches) -> Gradients:
    """`G` as anybody would write it: backward over the batches, divided by the number of samples."""
    leaves = trained(model)
    total = {name: torch.zeros_like(value) for name, value in leaves.items()}
    count = 0
    for batch in batches:
        losses = loss(model, batch)
        count += len(losses)
        for name, part in gradients_of(losses.sum(), leaves).items():
            total[name] += part
    return {name: value / count for name, value in total.items()}


def trained(model: nn.Module) -> Gradients:
    """The parameters that are trained, by name."""
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def gradients_of(loss: torch.Tensor, leaves: Gradients) -> Gradients:
    """The gradient of a loss by all parameters that it depends on."""
    if not loss.requires_grad:
        return {}
    parts = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return {name: part for name, part in zip(leaves, parts, strict=True) if part is not None}


def real(gradient: torch.Tensor) -> torch.Tensor:
    """A gradient in real numbers: a complex parameter is trained as the two real ones that it consists of."""
    return torch.view_as_real(gradient) if gradient.is_complex() else gradient


class Terms:
    """`G . g_z` and `|g_z|^2`, added up parameter by parameter and batch by batch."""

    def __init__(self, mean: Gradients) -> None:
        self.mean = {name: real(value).flatten() for name, value in mean.items()}
        self.products: list[torch.Tensor] = []
        self.norms: list[torch.Tensor] = []

    def begin_batch(self, size: int) -> None:
        """The next batch has this many samples."""
        self.products.append(torch.zeros(size, dtype=torch.float64))
        self.norms.append(torch.zeros(size, dtype=torch.float64))

    def add(self, name: str, gradients: torch.Tensor) -> None:
        """The gradients `[batch, ...]` of one parameter."""
        if len(gradients) != len(self.products[-1]):
            raise Refused(f"gives {len(gradients)} gradients of {name} for {len(self.products[-1])} samples")
        flat = real(gradients).flatten(1)
        self.products[-1] += (flat @ self.mean[name]).double().cpu()
        self.norms[-1] += torch.linalg.vector_norm(flat, dim=1).double().cpu().square()

    def scores(self) -> Scores:
        """`a_t(z)` of every sample."""
        return combined(torch.cat(self.products).numpy(), torch.cat(self.norms).numpy())


def combined(products: Scores, norms: Scores) -> Scores:
    """`a_t(z) = (N (G . g_z) - |g_z|^2) / (N - 1)`.

    >>> combined(np.array([2.0, 4.0]), np.array([1.0, 9.0]))
    array([ 3., -1.])
    """
    N = len(products)
    return np.asarray((N * products - norms) / (N - 1))


@contextmanager
def rows_for_every_sample(model: nn.Module, size: int) -> Iterator[None]:
    """What is looked up once for a whole batch (positions of words) is looked up for each of its `size` samples.

    Hooks on layers take the first dimension of what a layer is given to be that of samples.
    """

    def repeat(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        rows = inputs[0]
        return (rows.expand(size, *rows.shape[1:]) if len(rows) == 1 else rows, *inputs[1:])

    embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    handles = [module.register_forward_pre_hook(repeat) for module in embeddings]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def without_inplace(modules: Iterable[nn.Module]) -> None:
    """Activations that overwrite their input, which hooks on layers do not survive, no longer do so."""
    for module in modules:
        if getattr(module, "inplace", False):
            module.inplace = False  # type: ignore[assignment]
