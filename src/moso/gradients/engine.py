"""Gradients of per-sample losses: the mean over the data, and two scalars a sample.

A time step takes two sweeps over the data. The first adds up the mean gradient `G`, an ordinary batched
backward pass. The second forms the gradients of a few samples at a time with `vmap(grad)`, reduces them to
`G . g_z` and `|g_z|^2` in float64, and forgets them: no gradient of a sample outlives its chunk. A network
that `vmap` cannot take is done sample by sample, and that is announced once.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad, vmap

from moso.errors import MosoError
from moso.gradients.losses import Loss, LossModule, batch_length, map_tensors, one_of, to_device

Tensors = dict[str, torch.Tensor]
Batches = Callable[[], Iterable[Any]]

# Gradients of single samples that exist at one time.
CHUNK_BYTES = 256 * 2**20
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Point:
    """A network at one moment: which parameters are differentiated, and everything else held fixed."""

    model: nn.Module
    loss: Loss
    trained: Tensors
    fixed: Tensors
    device: torch.device

    @classmethod
    def of(
        cls,
        model: nn.Module,
        loss: Loss,
        state: Mapping[str, torch.Tensor] | None = None,
        parameters: Callable[[str], bool] | None = None,
    ) -> "Point":
        """The model with its own state or with another one; `parameters` says which names are differentiated.

        The model itself is not changed.
        """
        own = dict(model.named_parameters())
        names = [
            name for name, value in own.items() if value.requires_grad and (parameters is None or parameters(name))
        ]
        if not names:
            raise MosoError("no trainable parameter is left to score with: all are frozen or filtered out")
        device = next(iter(own.values())).device
        # Parameters that a model uses under two names are listed once; the state holds both.
        current = {**own, **dict(model.named_buffers())}
        # A buffer that a network does not save is not in the state, and is the network's own.
        held = current if state is None else {**current, **state}
        values = {name: held[name].detach().to(device) for name in current}
        trained = {f"model.{name}": values.pop(name) for name in names}
        return cls(model, loss, trained, {f"model.{name}": value for name, value in values.items()}, device)

    def losses(self, trained: Tensors, batch: Any) -> torch.Tensor:
        """The losses `[batch]` as a function of the differentiated parameters."""
        module = LossModule(self.model, self.loss)
        result: torch.Tensor = functional_call(module, {**trained, **self.fixed}, (batch,))
        return result


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, every submodule back in its own mode afterwards."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def mean_gradient(point: Point, batches: Batches) -> Tensors:
    """`G`, the gradient of the mean loss over all batches, summed in float64; names as in the model."""
    total = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in point.trained.items()}
    count = 0
    leaves = {name: value.clone().requires_grad_() for name, value in point.trained.items()}
    with evaluation_mode(point.model):
        for batch in batches():
            batch = to_device(batch, point.device)
            losses = point.losses(leaves, batch)
            parts = torch.autograd.grad(losses.sum(), list(leaves.values()), allow_unused=True)
            for name, part in zip(leaves, parts, strict=True):
                if part is not None:
                    total[name] += part
            count += len(losses)
    if count == 0:
        raise MosoError("there is no sample to take the mean gradient of")
    return {name.removeprefix("model."): value / count for name, value in total.items()}


def sample_terms(
    point: Point, batches: Batches, direction: Tensors, groups: tuple[tuple[str, ...], ...] = ()
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`V . g_z` and `|g_z|^2` for every sample and every group of parameters, `[groups, samples]` each.

    `direction` is any `V` with the differentiated parameters' names; without `groups` there is one.
    """
    groups = _groups(point, groups)
    per_sample = sum(value.numel() * value.element_size() for value in point.trained.values())
    chunk = max(1, CHUNK_BYTES // per_sample)
    dots, norms = [], []
    route = None
    with evaluation_mode(point.model):
        for batch in batches():
            batch = to_device(batch, point.device)
            route = route or _route(point, batch, chunk)
            for gradients in route(batch):
                dot = torch.zeros(len(groups), len(next(iter(gradients.values()))), dtype=torch.float64)
                norm = torch.zeros_like(dot)
                for row, names in enumerate(groups):
                    for name in names:
                        flat = gradients[f"model.{name}"].flatten(1).double()
                        dot[row] += (flat @ direction[name].flatten().double()).cpu()
                        norm[row] += flat.square().sum(1).cpu()
                dots.append(dot)
                norms.append(norm)
    return torch.cat(dots, 1).numpy(), torch.cat(norms, 1).numpy()


def _groups(point: Point, groups: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    names = [name.removeprefix("model.") for name in point.trained]
    if not groups:
        return (tuple(names),)
    grouped = [name for group in groups for name in group]
    missing = sorted(set(names) - set(grouped))
    if missing:
        raise MosoError(f"parameter {missing[0]} is in no optimiser group, so its learning rate is unknown")
    return tuple(tuple(name for name in group if name in names) for group in groups)


def _route(point: Point, batch: Any, chunk: int) -> Callable[[Any], Iterator[Tensors]]:
    """How gradients of single samples are taken here: a chunk at a time if `vmap` can, else one by one."""

    def one_by_one(batch: Any) -> Iterator[Tensors]:
        for number in range(batch_length(batch)):
            gradients = grad(lambda trained, one: point.losses(trained, one).sum())(
                point.trained, one_of(batch, number)
            )
            yield {name: gradient[None] for name, gradient in gradients.items()}

    def chunked(batch: Any) -> Iterator[Tensors]:
        for start in range(0, batch_length(batch), chunk):
            yield together(point.trained, _slice(batch, start, start + chunk))

    together = vmap(grad(lambda trained, one: point.losses(trained, _add_dimension(one)).sum()), in_dims=(None, 0))
    next(one_by_one(batch))  # an error of the user's loss or network surfaces here, not as a failure of vmap
    try:
        together(point.trained, _slice(batch, 0, 2))
    except (RuntimeError, ValueError, NotImplementedError) as problem:
        _announce(f"{type(point.model).__name__}: gradients are taken one sample at a time, which is slow ({problem})")
        return one_by_one
    return chunked


@cache
def _announce(message: str) -> None:
    _log.warning(message.splitlines()[0])


def _slice(batch: Any, start: int, stop: int) -> Any:
    return map_tensors(lambda tensor: tensor[start:stop], batch)


def _add_dimension(sample: Any) -> Any:
    return map_tensors(lambda tensor: tensor[None], sample)
