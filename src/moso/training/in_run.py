"""In-run scoring: terms that are collected while the surrogate trains, without stored steps or passes of their own.

Every sample is seen once an epoch. When it is, the derivative of its loss is taken along a low-noise descent direction
that training has anyway, the mean of past gradients in the optimiser's momentum `v` (SGD's buffer, AdamW's first
moment), and stands for the mean gradient of the others:

    a(z) = V . g_z        V = v (1 - mu) / (1 - mu^t), so that the weights of past gradients add up to one

The batch at hand is not in `V` yet, so the sample is in it only by earlier epochs, faintly: `V . g_z` is taken as the
leave-one-out product itself. The terms are those from which a score finds it, `dot = (N - 1) / N a` and
`squared_norm = 0`, at the last step of the epoch and with the mean rate of its steps.

What differs from the exact estimator: samples are as training meets them (augmented, other samples in the batch-norm);
`V` is old by some ten steps, holds weight decay, and gradients as they were clipped; the samples of one epoch are seen
at different steps. Before the first update there is no direction, so the first epoch does not count.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.evidence import ParameterFilter, Sampling, StepTerms, sample_steps
from moso.gradients import LiveProducts, Loss
from moso.randomness import seeded
from moso.training.callback import Callback, TrainingRun
from moso.training.optimizers import Optimizer
from moso.training.recipe import TrainingRecipe
from moso.training.steps import Step


def counted_steps(
    epochs: int, steps_per_epoch: int, time_steps: int, seed: int, sampling: Sampling = "stratified"
) -> NDArray[np.int64]:
    """The last steps of the epochs that count: `time_steps` of all but the first.

    >>> counted_steps(4, 10, 3, seed=0)
    array([20, 30, 40])
    """
    if time_steps > epochs - 1:
        raise errors.SettingInvalid(
            f"in-run scoring has a time step for every epoch but the first, {epochs - 1} of {epochs}, and {time_steps} "
            "were asked for; ask for fewer (--time-steps) or train longer (--epochs)"
        )
    return (sample_steps(epochs - 1, time_steps, seed, sampling) + 1) * steps_per_epoch


def check_in_run(recipe: TrainingRecipe) -> None:
    """Refuse a recipe that leaves no direction to take derivatives along."""
    if recipe.momentum == 0:
        raise errors.RecipeUnsuitable(
            "in-run scoring follows the momentum of training, but the surrogate's recipe has momentum = 0"
        )
    if recipe.precision == "float16":
        raise errors.RecipeUnsuitable(
            "in-run scoring does not know float16's scaled losses; use precision bfloat16 or float32"
        )
    if recipe.epochs < 2:
        raise errors.RecipeUnsuitable("in-run scoring begins with the second epoch; train for 2 epochs at least")


class InRun(Callback):
    """Collects the terms of every sample of a partition, epoch by epoch, and gives each epoch's to `keep`.

    `steps` are the last steps of the epochs that count. What is collected of an unfinished epoch is part of a saved
    position, so a run that was killed ends with the same terms.
    """

    name = "in-run"

    def __init__(
        self,
        positions: NDArray[np.int64],
        steps: NDArray[np.int64],
        steps_per_epoch: int,
        keep: Callable[[StepTerms], None],
        parameters: ParameterFilter | None = None,
    ) -> None:
        self.positions, self.steps, self.steps_per_epoch = positions, set(steps.tolist()), steps_per_epoch
        self.keep, self.parameters = keep, parameters
        self._order = np.argsort(positions)
        self._products = np.full(len(positions), np.nan)
        self._rates: list[float] = []
        self._live: LiveProducts | None = None
        self._scale = 1.0

    def counts(self, step: int) -> bool:
        """Whether an update belongs to an epoch that counts."""
        return -(-step // self.steps_per_epoch) * self.steps_per_epoch in self.steps

    def losses(self, run: TrainingRun, step: Step, loss: Loss) -> Loss:
        """The forward pass of an update that counts, watched; `after_backward` takes the products."""
        if not self.counts(step.number):
            return loss

        def watched(model: nn.Module, batch: Any) -> torch.Tensor:
            if self._live is None or self._live.model is not model:
                with seeded("in-run"):  # trying things out must not move the draws of training
                    self._live = LiveProducts(model, loss, batch, self.parameters)
            optimizer = run.optimizer
            self._scale = optimizer.rule.mean(optimizer.settings, step.number - 1)
            return self._live.losses(batch, _direction(model, optimizer))

        return watched

    def after_backward(self, run: TrainingRun, step: Step) -> None:
        """Take the products of the update's samples before its gradients are changed."""
        if not self.counts(step.number):
            return
        assert self._live is not None, "losses come first"
        rows = self._order[np.searchsorted(self.positions, step.positions, sorter=self._order)]
        self._products[rows] = self._live.products().numpy() * self._scale
        self._rates.append(step.rate)

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """At the end of an epoch that counts, give its terms away."""
        if step.number not in self.steps:
            return
        N = len(self._products)
        if not np.isfinite(self._products).all():
            bad = int(self.positions[np.argmax(~np.isfinite(self._products))])
            raise errors.ValuesNotFinite(
                f"the product with the gradient of sample {bad} up to step {step.number} is not finite"
            )
        dot = self._products[None] * (N - 1) / N
        self.keep(StepTerms(step.number, (float(np.mean(self._rates)),), dot, np.zeros_like(dot)))
        self._products = np.full(N, np.nan)
        self._rates = []

    def state(self) -> dict[str, torch.Tensor]:
        """What is collected of the epoch so far."""
        return {"products": torch.from_numpy(self._products), "rates": torch.tensor(self._rates, dtype=torch.float64)}

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from what was collected before."""
        self._products = state["products"].numpy().copy()
        self._rates = state["rates"].tolist()


def _direction(model: nn.Module, optimizer: Optimizer) -> dict[str, torch.Tensor]:
    """The optimiser's weighted sum of past gradients, by the names that parameters have in `model`."""
    held = next(iter(optimizer.slots.values()), {})
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    if not held:
        raise errors.RecipeUnsuitable("in-run scoring follows the momentum of training, but the optimiser has none")
    return {names[id(optimizer.parameters[own])]: value for own, value in held.items()}
