"""A network at one moment of its training, as a function of the parameters that are differentiated."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from moso.errors import MosoError
from moso.gradients.caches import Attributes
from moso.gradients.losses import Collated, Loss, LossModule, to_device

Tensors = dict[str, torch.Tensor]
Batches = Callable[[], Iterable[Any]]
Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Point:
    """A network at one moment: which parameters are differentiated, and everything else held fixed.

    A complex parameter is differentiated by the two real ones that it consists of, `[..., 2]`.
    """

    model: nn.Module
    loss: Loss
    trained: Tensors
    fixed: Tensors
    device: torch.device
    attributes: Attributes
    complex_names: frozenset[str]
    # The model and its loss as one module, of which the model's tensors are replaced.
    module: LossModule
    # Other names of tensors that the model has under several.
    tied: Mapping[str, str]

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
        complex_names = frozenset(name for name in names if values[name].is_complex())
        trained = {name: _as_real(values.pop(name)) for name in names}
        with evaluation_mode(model):
            attributes = Attributes(model)
        module, tied = LossModule(model, loss), _tied(model)
        return cls(model, loss, trained, values, device, attributes, complex_names, module, tied)

    def losses(self, trained: Tensors, batch: Any) -> torch.Tensor:
        """The losses `[batch]` as a function of the differentiated parameters."""
        given = batch.inner if isinstance(batch, Collated) else batch
        try:
            result: torch.Tensor = functional_call(self.module, self.values(trained), (given,), tie_weights=False)
        finally:
            self.attributes.restore()
        return result

    def values(self, trained: Tensors) -> Tensors:
        """The tensors of a module whose part `model` is the network, with other values of the parameters."""
        values = {
            f"model.{name}": torch.view_as_complex(value) if name in self.complex_names else value
            for name, value in {**self.fixed, **trained}.items()
        }
        values.update({other: values[name] for other, name in self.tied.items()})
        return values

    def constants(self) -> list[torch.Tensor]:
        """Tensors that are the same for all samples: what is held fixed, and what modules keep as attributes."""
        return [*self.fixed.values(), *self.attributes.tensors]

    def only(self, names: Iterable[str]) -> "Point":
        """The same moment with fewer parameters differentiated."""
        chosen = {name: self.trained[name] for name in names}
        others = {name: value for name, value in self.trained.items() if name not in chosen}
        return replace(self, trained=chosen, fixed={**self.fixed, **others})

    def checked_groups(self, groups: Groups) -> Groups:
        """Groups of differentiated parameters, each in exactly one; without any, one group of all."""
        if not groups:
            return (tuple(self.trained),)
        grouped = {name for group in groups for name in group}
        missing = sorted(set(self.trained) - grouped)
        if missing:
            raise MosoError(f"parameter {missing[0]} is in no optimiser group, so its learning rate is unknown")
        return tuple(tuple(name for name in group if name in self.trained) for group in groups)


def _tied(model: nn.Module) -> dict[str, str]:
    """By every further name of a tensor, the name that it is listed by."""
    found: dict[str, str] = {}
    listed: dict[int, str] = {}
    for tensors in (model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)):
        for name, value in tensors:
            first = listed.setdefault(id(value), name)
            if first != name:
                found[f"model.{name}"] = f"model.{first}"
    return found


def _as_real(value: torch.Tensor) -> torch.Tensor:
    """A complex parameter as the two real ones that it consists of."""
    return torch.view_as_real(value) if value.is_complex() else value


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, every submodule back in its own mode afterwards.

    It passes through training mode, where layers drop what they keep ready for evaluation.
    """
    modes = {module: module.training for module in model.modules()}
    model.train()
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def through(point: Point, batches: Batches) -> Iterator[Any]:
    """The batches where the network is, which is in evaluation mode meanwhile."""
    with evaluation_mode(point.model):
        for batch in batches():
            yield to_device(batch, point.device)
