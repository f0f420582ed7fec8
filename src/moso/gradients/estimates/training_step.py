"""`V . g_z` of every sample of a training step, computed in the step's own forward and backward pass.

A call that is linear in its parameters contributes `b . f(a; V)` per sample, as in the ghost dot product, with `a` and
`b` of the pass that training makes anyway. The extra cost is one more forward pass through the layers with parameters.

Where samples mix, as under batch-norm in training mode, `g_z` is the part of the batch's gradient that passes through
the sample's own activations: the derivative of the whole batch's loss by parameters that only this sample uses. These
parts sum to the batch's gradient, and every step checks that: their sum along `V` must equal autograd's gradient along
`V`. A parameter whose use was not watched would violate this.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from moso import errors
from moso.batch import Batch
from moso.gradients.derived_tensors import pushed_forward
from moso.gradients.directional import ghost_dot, moved_along
from moso.gradients.layers import OPERATIONS, Call, Place
from moso.gradients.layers.operation import Arguments, Function, Positional
from moso.gradients.losses import Loss, LossModule, batch_length, wide
from moso.gradients.point import Point, Tensors, evaluation_mode
from moso.gradients.trust import ensure, knowledge_of
from moso.gradients.watching.calls import Watching

# Allowed difference between the sum over samples and autograd's, relative to the summed magnitudes: in float32, and
# under autocast.
TOLERANCE, ROUGH_TOLERANCE = 5e-3, 5e-2
ROUNDING = 1e-5

# In training mode these normalise by the batch's statistics, and are still linear in their parameters.
_IN_TRAINING = {func: replace(OPERATIONS[func], holds=lambda given: True) for func in (F.batch_norm, F.instance_norm)}


class TrainingStepProducts:
    """Watches training steps of a network and computes `V . g_z`, using the network's own parameters and buffers.

    Example:
        >>> from moso.tasks import cross_entropy
        >>> model, batch = nn.Linear(2, 2), (torch.eye(2), torch.tensor([0, 1]))
        >>> live = TrainingStepProducts(model, cross_entropy, batch)
        >>> live.losses(batch, {"weight": torch.ones(2, 2)}).mean().backward()
        >>> live.products().shape
        torch.Size([2])
    """

    def __init__(
        self, model: nn.Module, loss: Loss, batch: Batch, parameters: Callable[[str], bool] | None = None
    ) -> None:
        """Probe on some samples of `batch` how each parameter meets samples.

        Args:
            model: The network.
            loss: Returns one loss per sample.
            batch: Samples to probe with.
            parameters: Returns whether the parameter of this name is included; by default all trainable ones are.

        Raises:
            ModelUnsuitable: A parameter has no closed form.
        """
        self.model, self.loss = model, loss
        point = Point.of(model, loss, parameters=parameters)
        self.names = list(point.trained)
        self._point = point
        self._look(batch)
        self._live: dict[str, nn.Parameter] = dict(model.named_parameters())
        self._direction: Tensors = {}
        self._seen: set[str] = set()
        self._moved: dict[Place, torch.Tensor] = {}
        self._sum = torch.zeros(0)
        self._mixed: torch.dtype | None = None

    def _look(self, batch: Batch) -> None:
        """Compare closed forms that were not compared yet with autograd, on samples of a batch."""
        with evaluation_mode(self.model):
            self.known = knowledge_of(self._point, batch)
            self.routes = ensure(self._point, self.known, batch).routes
        unseen = [name for name in self.names if name not in self.routes.covered]
        if unseen:
            raise _unseen(unseen[0])

    def losses(self, batch: Batch, direction: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Run the forward pass; the caller differentiates the mean of the losses next.

        Args:
            batch: The samples.
            direction: `V`, by parameter name.

        Returns:
            The losses, shape ``[batch]``.
        """
        if any(name not in self.known.seen for name in self.names):
            self._look(batch)
        count, device = batch_length(batch), self._live[self.names[0]].device
        self._direction = {name: direction[name] for name in self.names if name in direction}
        self._sum = wide(torch.zeros(count, device=device))
        self._mixed = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None
        watched: Tensors = {name: self._live[name] for name in self.routes.layouts}
        watching = _WatchingTraining(
            watched, count, self.routes.layouts, self._visit,
            constants=self._point.constants(), growing=self.routes.growing, cut=False,
        )  # fmt: skip
        spread = {name: self._spread(name, shape, count) for name, shape in self.routes.spread.items()}
        with watching:
            values = {f"model.{name}": value for name, value in spread.items()}
            losses: torch.Tensor = functional_call(LossModule(self.model, self.loss), values, (batch,))
        self._seen = {name for place in watching.uses for name in place.names} | set(spread)
        derived = [place for place in watching.uses if place.tensor is not None]
        self._moved = {place: pushed_forward(place, watched, self._direction) for place in derived}
        return losses

    def products(self) -> torch.Tensor:
        """Return `V . g_z`, ``[batch]`` in float64; call it after the backward pass, before gradients are changed.

        Raises:
            ModelUnsuitable: A use of a parameter was not watched, so the products do not add up.
        """
        whole = size = 0.0
        for name in self.names:
            gradient = self._live[name].grad
            if gradient is None:
                continue
            if name not in self._seen and bool(gradient.any()):
                raise _unseen(name)
            if name in self._direction:
                along = gradient * self._direction[name]
                whole, size = whole + float(along.sum()), size + float(along.abs().sum())
        tolerance = TOLERANCE if self._mixed is None else ROUGH_TOLERANCE
        found = float(self._sum.sum())
        # Terms that cancel in the sum leave their rounding errors behind.
        if abs(found - whole) > tolerance * float(self._sum.abs().sum()) + ROUNDING * size:
            raise errors.ModelUnsuitable(
                f"products with single samples' gradients add up to {found:.6g} where the batch's gradient gives "
                f"{whole:.6g}: some use of a parameter is not seen while training; score after training instead"
            )
        return self._sum.cpu() * len(self._sum)

    def _visit(self, call: Call, b: torch.Tensor) -> None:
        if call.given.get("training") or call.given.get("use_input_stats"):
            # Called once more, batch-norm must not update its running statistics with the batch again.
            call = replace(call, given={**call.given, "running_mean": None, "running_var": None})
        with torch.autocast(b.device.type, self._mixed, enabled=self._mixed is not None):
            self._sum += wide(ghost_dot(call, b, lambda place: moved_along(place, self._direction, self._moved)))

    def _spread(self, name: str, shape: tuple[int, ...], count: int) -> torch.Tensor:
        """Broadcast a parameter to one copy per sample, so that a hook receives per-sample gradients."""
        value = self._live[name].view(shape).expand(count, *shape[1:]).clone()

        def add(gradients: torch.Tensor) -> None:
            if name in self._direction:
                self._sum += wide(gradients.flatten(1)) @ wide(self._direction[name]).flatten()

        value.register_hook(add)  # type: ignore[no-untyped-call]
        return value


class _WatchingTraining(Watching):
    """Watches normalisations in training mode, too."""

    def __torch_function__(
        self, func: Function, types: object, args: Positional = (), kwargs: Arguments | None = None
    ) -> Any:
        operation = _IN_TRAINING.get(func)
        bound = None if operation is None else operation.bind(args, kwargs or {}, self._is_place)
        if bound is not None:
            return self._seen(*bound, func, args, kwargs or {})
        return super().__torch_function__(func, types, args, kwargs)


def _unseen(name: str) -> errors.MosoError:
    return errors.ModelUnsuitable(
        f"what {name} does to single samples cannot be seen while training, and a score needs every parameter; "
        "score after training instead (estimator 'exact')"
    )
