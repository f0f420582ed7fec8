"""One update, differentiated exactly as it was performed.

An update maps the state (parameters, the optimiser's slots, buffers) and one loss weight per sample of its batch to the
next state. Given the adjoint `lambda'` of the next state (the derivative of the final risk with respect to it), one
vector-Jacobian product

    lambda = (d step / d state)^T lambda'             and            u . g_i        for every sample i of the batch

gives the adjoint of this state and, through the loss weights, the effect of every sample's gradient on the risk; no
per-sample gradient is ever formed. `u` is the adjoint of the batch's mean gradient: the backward pass through the
optimiser, including clipping (`training/optimizers/descent.py`). The parameters' part is a second derivative of the
losses along `u`, plus the path of the batch's statistics into batch-norm's running statistics
(`running_statistics.py`).

**Leaving a sample out** of a batch of B replaces the mean over B samples by the mean over the other B-1, `G` becomes
`(B G - g_i) / (B - 1)`, so to first order the risk changes by

    u . (G - g_i) / (B - 1)                           (B = 1: by - u . g_i, an update without gradient)

For plain gradient descent `u = - eta lambda'`, and this is `eta / (B - 1) lambda' . (g_i - G)`.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from moso import errors
from moso.adjoint.running_statistics import RunningStatistics
from moso.adjoint.state import Adjoint, TrainingState, differentiable
from moso.batch import Batch
from moso.gradients import Loss, map_tensors, to_device
from moso.gradients.losses import LossModule
from moso.randomness import reseed, seeded
from moso.training.optimizers import Slots, Tensors, descend, find_rule, rate_factors
from moso.training.recipe import TrainingRecipe

# Allowed difference between the mean of `u . g_i` and `u . G`, relative to the summed magnitudes of the products.
LINEAR = 1e-3


@dataclass(frozen=True)
class StepBack:
    """The result of differentiating one update: the adjoints of the state before it, one per risk, and what follows."""

    adjoints: list[Adjoint]
    changes: NDArray[np.float64]
    """The first-order change of each risk if a sample had been left out of this update alone, `[risks, batch]`."""
    after: TrainingState
    """The state after the update as differentiated: that of training, but for rounding."""


@dataclass(frozen=True)
class Step:
    """The updates of one run as a function of state and batch; of the network, only the architecture is used."""

    model: nn.Module
    loss: Loss
    recipe: TrainingRecipe
    seed: int

    @cached_property
    def factors(self) -> dict[str, float]:
        """What the learning rate is multiplied by, per parameter."""
        return rate_factors(self.model, self.recipe)

    def back(self, state: TrainingState, batch: Batch, rate: float, adjoints: Sequence[Adjoint]) -> StepBack:
        """Map adjoints of the state after update `state.step + 1` to adjoints of `state`.

        Args:
            state: The state before the update.
            batch: The samples of the update.
            rate: The learning rate.
            adjoints: One adjoint per risk.

        Raises:
            NotDifferentiable: A layer has no second derivative.
        """
        step = state.step + 1
        leaves = _leaves(state.trained)
        moving = _leaves(differentiable(state.buffers))
        # Non-leaf copies: a network may change buffers in place, and autograd tracks that.
        buffers = {**{name: value.clone() for name, value in state.buffers.items()}, **_copies(moving)}
        with seeded(self.seed, "training"), _plain_attention(), RunningStatistics() as statistics:
            reseed(self.seed, "update", step)
            losses = self._losses(leaves, buffers, batch)
            weights = torch.full_like(losses, 1 / len(losses)).requires_grad_()
            gradients = torch.autograd.grad(
                (weights * losses).sum(), list(leaves.values()), create_graph=True, allow_unused=True
            )
        reached = {name: value for name, value in zip(leaves, gradients, strict=True) if value is not None}
        updated = {name: statistics.after(buffers[name]) for name in moving}
        detached = {name: value.detach() for name, value in reached.items()}
        descent = _Descent(self.recipe, rate, self.factors, state, detached)
        found, changes = [], []
        for number, adjoint in enumerate(adjoints):
            part = descent.back(adjoint)
            sources = [*leaves.values(), *moving.values(), weights]
            last = number == len(adjoints) - 1
            derivatives = self._derivatives(
                [*(reached[name] for name in reached), *updated.values()],
                [*(part.gradients[name] for name in reached), *(adjoint.buffers[name] for name in updated)],
                sources,
                keep=not last,
            )
            second = dict(zip([*leaves, *(f"buffer|{name}" for name in moving)], derivatives, strict=False))
            found.append(
                Adjoint(
                    {name: _sum(part.trained[name], second[name]) for name in leaves},
                    part.slots,
                    {name: _sum(None, second[f"buffer|{name}"], moving[name]) for name in moving},
                )
            )
            products = _sum(None, derivatives[-1], weights).double()
            self._check_linear(float(products.mean()), part.gradients, reached)
            changes.append(_left_out(products))
        after = TrainingState(step, descent.trained, descent.slots, {n: v.detach() for n, v in updated.items()})
        return StepBack(found, np.stack(changes) if changes else np.zeros((0, len(losses))), after)

    def _check_linear(self, mean: float, along: Tensors, gradients: Tensors) -> None:
        """Check that the gradient is linear in the loss weights; it is not if some layer detached from the graph."""
        parts = [(along[name] * gradients[name].detach()).double() for name in gradients]
        whole = sum(float(part.sum()) for part in parts)
        size = sum(float(part.abs().sum()) for part in parts)
        if abs(mean - whole) > LINEAR * size:
            raise errors.NotDifferentiable(
                f"the adjoint needs second derivatives, which a layer of {type(self.model).__name__} does not have: "
                "its gradient is no function of the losses (a custom function that can be differentiated once only?)"
            )

    def _losses(self, leaves: Tensors, buffers: Tensors, batch: Batch) -> torch.Tensor:
        device = next(iter(leaves.values())).device
        batch = to_device(batch, device)
        if self.recipe.channels_last:
            batch = map_tensors(_channels_last, batch)
        values = {f"model.{name}": value for name, value in {**leaves, **buffers}.items()}
        self.model.train()
        result: torch.Tensor = functional_call(LossModule(self.model, self.loss), values, (batch,))
        return result

    def _derivatives(
        self,
        outputs: list[torch.Tensor],
        along: list[torch.Tensor],
        sources: list[torch.Tensor],
        keep: bool,
    ) -> list[torch.Tensor | None]:
        used = [(output, way) for output, way in zip(outputs, along, strict=True) if output.requires_grad]
        try:
            return list(
                torch.autograd.grad(
                    [output for output, _ in used],
                    sources,
                    [way for _, way in used],
                    retain_graph=keep,
                    allow_unused=True,
                )
            )
        except RuntimeError as problem:
            if "not implemented" not in str(problem):
                raise
            raise errors.NotDifferentiable(
                f"the adjoint needs second derivatives, which a layer of {type(self.model).__name__} does not have: "
                f"{str(problem).splitlines()[0]}"
            ) from problem


@dataclass(frozen=True)
class _Back:
    trained: Tensors
    gradients: Tensors
    slots: Slots


class _Descent:
    """The optimiser's part of one update, kept so that several adjoints can be propagated back through it."""

    def __init__(
        self,
        recipe: TrainingRecipe,
        rate: float,
        factors: Mapping[str, float],
        state: TrainingState,
        gradients: Tensors,
    ) -> None:
        used = find_rule(recipe.optimizer).slots(recipe)
        self._sources = {
            "trained": _leaves({name: state.trained[name] for name in gradients}),
            "gradient": _leaves(gradients),
            **{slot: _leaves({name: state.slot(slot, name) for name in gradients}) for slot in used},
        }
        held = {slot: self._sources[slot] for slot in used}
        along = self._sources["gradient"]
        trained, slots = descend(recipe, rate, state.counts, self._sources["trained"], along, held, factors=factors)
        self._results = {"trained": trained, **slots}
        self.trained = {**state.trained, **{name: value.detach() for name, value in trained.items()}}
        self.slots = {
            slot: {**state.slots.get(slot, {}), **{name: value.detach() for name, value in values.items()}}
            for slot, values in slots.items()
        }

    def back(self, adjoint: Adjoint) -> _Back:
        """Return adjoints of parameters, gradients and slots before the optimiser's part, from those after it."""
        after = {"trained": adjoint.trained, **adjoint.slots}
        outputs = [(part, name) for part, values in self._results.items() for name in values]
        sources = [(part, name) for part, values in self._sources.items() for name in values]
        found: dict[str, Tensors] = {part: {} for part in self._sources}
        if outputs:
            derivatives = torch.autograd.grad(
                [self._results[part][name] for part, name in outputs],
                [self._sources[part][name] for part, name in sources],
                [after[part][name] for part, name in outputs],
                retain_graph=True,
                allow_unused=True,
            )
            for (part, name), value in zip(sources, derivatives, strict=True):
                found[part][name] = torch.zeros_like(self._sources[part][name]) if value is None else value
        # Adjoints of tensors that the update does not change pass through unchanged.
        slots = {slot: {**values, **found.get(slot, {})} for slot, values in adjoint.slots.items()}
        return _Back({**adjoint.trained, **found["trained"]}, found["gradient"], slots)


def final_adjoint(state: TrainingState, recipe: TrainingRecipe, trained: Tensors, buffers: Tensors) -> Adjoint:
    """Return the adjoint of the last state: the risk depends on parameters and buffers, not on the optimiser's slots.

    Args:
        state: The state after the last update.
        recipe: The training recipe, for the optimiser's slots.
        trained: Derivatives of the risk with respect to parameters.
        buffers: Derivatives of the risk with respect to buffers.
    """
    used = find_rule(recipe.optimizer).slots(recipe)
    return Adjoint(
        trained, {slot: {n: torch.zeros_like(v) for n, v in state.trained.items()} for slot in used}, buffers
    )


def _left_out(products: torch.Tensor) -> NDArray[np.float64]:
    own = np.asarray(products.detach().cpu().numpy())
    return -own if len(own) == 1 else (own.mean() - own) / (len(own) - 1)


def _leaves(tensors: Tensors) -> Tensors:
    return {name: value.detach().clone().requires_grad_() for name, value in tensors.items()}


def _copies(leaves: Tensors) -> Tensors:
    return {name: value.clone() for name, value in leaves.items()}


def _sum(first: torch.Tensor | None, second: torch.Tensor | None, like: torch.Tensor | None = None) -> torch.Tensor:
    if first is None:
        assert like is not None
        return torch.zeros_like(like) if second is None else second
    return first if second is None else first + second


def _plain_attention() -> AbstractContextManager[None]:
    # The fused attention kernels have no second derivative.
    return sdpa_kernel(SDPBackend.MATH)


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor
