"""A network at one moment of its training, as a function of its differentiated parameters."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from moso import errors
from moso.batch import Batch
from moso.gradients.caches import Attributes
from moso.gradients.losses import Collated, Loss, LossModule, to_device

Tensors = dict[str, torch.Tensor]
Batches = Callable[[], Iterable[Batch]]
Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Point:
    """A network at one moment: the differentiated parameters, and everything else held fixed.

    A complex parameter is differentiated as its real view, shape ``[..., 2]``.

    Attributes:
        model: The network; its own tensors are replaced by those below, not changed.
        loss: Returns one loss per sample, shape ``[batch]``.
        trained: The differentiated parameters, by name.
        fixed: All other parameters and buffers, by name.
        device: Where the network is.
        attributes: The attributes of the network's modules, restored after every pass.
        complex_names: The differentiated parameters that are complex.
        module: The model and its loss as one module.
        tied: Further names of shared tensors, each with the name that the tensor is listed by.
        metric: Diagonal `P` by parameter name; squared norms of gradients are then `sum P g^2`, and mean gradients are
            compared as `(P G) . g_z`. Empty for the plain product.
    """

    model: nn.Module
    loss: Loss
    trained: Tensors
    fixed: Tensors
    device: torch.device
    attributes: Attributes
    complex_names: frozenset[str]
    # The model and its loss as one module, for `functional_call`.
    module: LossModule
    # Further names of shared tensors.
    tied: Mapping[str, str]
    metric: Mapping[str, torch.Tensor] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: nn.Module,
        loss: Loss,
        state: Mapping[str, torch.Tensor] | None = None,
        parameters: Callable[[str], bool] | None = None,
    ) -> "Point":
        """Create the point of a model; the model itself is not changed.

        Args:
            model: The network.
            loss: Returns one loss per sample, shape ``[batch]``.
            state: Values of parameters and buffers, such as those of a checkpoint; by default the model's own.
            parameters: Returns whether the parameter of this name is differentiated; by default all trainable ones are.

        Raises:
            ModelUnsuitable: No trainable parameter is left.
        """
        own = dict(model.named_parameters())
        names = [
            name for name, value in own.items() if value.requires_grad and (parameters is None or parameters(name))
        ]
        if not names:
            raise errors.ModelUnsuitable("no trainable parameter is left to score with: all are frozen or filtered out")
        device = next(iter(own.values())).device
        # `named_parameters` lists a shared parameter once; the state has all of its names.
        current = {**own, **dict(model.named_buffers())}
        # A non-persistent buffer is not in the state; the network's own value is used.
        held = current if state is None else {**current, **state}
        values = {name: held[name].detach().to(device) for name in current}
        complex_names = frozenset(name for name in names if values[name].is_complex())
        trained = {name: _as_real(values.pop(name)) for name in names}
        with evaluation_mode(model):
            attributes = Attributes(model)
        module, tied = LossModule(model, loss), _tied(model)
        return cls(model, loss, trained, values, device, attributes, complex_names, module, tied)

    def losses(self, trained: Tensors, batch: Batch) -> torch.Tensor:
        """Compute the losses ``[batch]`` as a function of the differentiated parameters."""
        given = batch.inner if isinstance(batch, Collated) else batch
        try:
            result: torch.Tensor = functional_call(self.module, self.values(trained), (given,), tie_weights=False)
        finally:
            self.attributes.restore()
        return result

    def values(self, trained: Tensors) -> Tensors:
        """Return all tensors by their name in a module that has the network as `model`, with `trained` as given."""
        values = {
            f"model.{name}": torch.view_as_complex(value) if name in self.complex_names else value
            for name, value in {**self.fixed, **trained}.items()
        }
        values.update({other: values[name] for other, name in self.tied.items()})
        return values

    def constants(self) -> list[torch.Tensor]:
        """Return the tensors that are the same for all samples: the fixed ones, and attributes of modules."""
        return [*self.fixed.values(), *self.attributes.tensors]

    def only(self, names: Iterable[str]) -> "Point":
        """Return the same point with only the parameters `names` differentiated."""
        chosen = {name: self.trained[name] for name in names}
        others = {name: value for name, value in self.trained.items() if name not in chosen}
        return replace(self, trained=chosen, fixed={**self.fixed, **others})

    def measured_by(self, metric: Mapping[str, torch.Tensor]) -> "Point":
        """Return the same point under a diagonal metric; parameters that it does not name have 1.

        Raises:
            ModelUnsuitable: A parameter is complex.
        """
        if metric and self.complex_names:
            raise errors.ModelUnsuitable(
                "optimizer-aware scores are for real parameters; this network has complex ones"
            )
        return replace(
            self, metric={name: metric[name].to(value) for name, value in self.trained.items() if name in metric}
        )

    def along(self, direction: Tensors) -> Tensors:
        """Return `P V`, the direction whose product with a gradient is that of `V` under the metric."""
        if not self.metric:
            return direction
        return {name: value * self.metric[name] if name in self.metric else value for name, value in direction.items()}

    def checked_groups(self, groups: Groups) -> Groups:
        """Restrict the groups to differentiated parameters; without groups, return one group of all of them.

        Raises:
            CheckpointMismatch: A differentiated parameter is in no group.
        """
        if not groups:
            return (tuple(self.trained),)
        grouped = {name for group in groups for name in group}
        missing = sorted(set(self.trained) - grouped)
        if missing:
            raise errors.CheckpointMismatch(
                f"parameter {missing[0]} is in no optimiser group, so its learning rate is unknown"
            )
        return tuple(tuple(name for name in group if name in self.trained) for group in groups)


def _tied(model: nn.Module) -> dict[str, str]:
    """Map every further name of a shared tensor to the name that the tensor is listed by."""
    found: dict[str, str] = {}
    listed: dict[int, str] = {}
    for tensors in (model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)):
        for name, value in tensors:
            first = listed.setdefault(id(value), name)
            if first != name:
                found[f"model.{name}"] = f"model.{first}"
    return found


def _as_real(value: torch.Tensor) -> torch.Tensor:
    """Return the real view ``[..., 2]`` of a complex parameter; a real one as it is."""
    return torch.view_as_real(value) if value.is_complex() else value


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put the model in evaluation mode, and every submodule back in its own mode afterwards (context manager).

    The model passes through training mode first, where layers drop what they cached for evaluation.
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
    """Yield the batches on the network's device, with the network in evaluation mode meanwhile."""
    with evaluation_mode(point.model):
        for batch in batches():
            yield to_device(batch, point.device)
