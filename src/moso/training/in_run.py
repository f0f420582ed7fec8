"""In-run scoring: terms are collected while the surrogate trains, without stored steps or extra passes.

Every sample is met once per epoch. At that moment the derivative of its loss is taken along a low-noise descent
direction that training has anyway: the mean of past gradients in the optimiser's momentum `v` (SGD's buffer, AdamW's
first moment), which approximates the mean gradient of the other samples:

    a(z) = V . g_z        V = v (1 - mu) / (1 - mu^t), so that the weights of past gradients add up to one

The current batch is not in `V` yet, so the sample contributes to it only through earlier epochs, with a small weight:
`V . g_z` is taken as the leave-one-out product itself. The stored terms are those from which a score recovers it,
`dot = (N - 1) / N a` and `squared_norm = 0`, at the last step of the epoch and with the mean learning rate of its
steps.

Differences from the exact estimator: samples are as training meets them (augmented, with other samples in the
batch-norm); `V` lags by some ten steps, includes weight decay, and holds gradients after clipping; the samples of one
epoch are met at different steps. Before the first update there is no direction, so the first epoch does not count.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.batch import Batch
from moso.evidence import ParameterFilter, Sampling, StepTerms, sample_steps
from moso.gradients import Loss, TrainingStepProducts
from moso.randomness import seeded
from moso.training.callback import Callback, TrainingRun
from moso.training.optimizers import Optimizer
from moso.training.recipe import TrainingRecipe
from moso.training.step_plan import Step


def counted_steps(
    epochs: int, steps_per_epoch: int, time_steps: int, seed: int, sampling: Sampling = "stratified"
) -> NDArray[np.int64]:
    """Return the last steps of the epochs that count: `time_steps` of all epochs but the first.

    Args:
        epochs: Number of epochs of the training.
        steps_per_epoch: Updates per epoch.
        time_steps: Number of epochs that count.
        seed: Seed of the draw.
        sampling: As in `sample_steps`.

    Raises:
        SettingInvalid: There are fewer epochs after the first than `time_steps`.

    Example:
        >>> counted_steps(4, 10, 3, seed=0)
        array([20, 30, 40])
    """
    if time_steps > epochs - 1:
        raise errors.SettingInvalid(
            f"in-run scoring has a time step for every epoch but the first, {epochs - 1} of {epochs}, and {time_steps} "
            "were asked for; ask for fewer (time_steps) or train longer (epochs)"
        )
    return (sample_steps(epochs - 1, time_steps, seed, sampling) + 1) * steps_per_epoch


def check_in_run(recipe: TrainingRecipe) -> None:
    """Refuse a recipe that leaves no momentum to take derivatives along.

    Raises:
        RecipeUnsuitable: No momentum, float16 precision, or fewer than 2 epochs.
    """
    if recipe.momentum == 0:
        raise errors.RecipeUnsuitable(
            "in-run scoring follows the momentum of training, but the surrogate's recipe has momentum = 0"
        )
    if recipe.precision == "float16":
        raise errors.RecipeUnsuitable(
            "in-run scoring does not support the scaled losses of float16; use precision bfloat16 or float32"
        )
    if recipe.epochs < 2:
        raise errors.RecipeUnsuitable("in-run scoring begins with the second epoch; train for 2 epochs at least")


class InRun(Callback):
    """Collects the terms of every sample of a partition, epoch by epoch, and passes each epoch's terms to `keep`.

    The terms of an unfinished epoch are part of a checkpoint, so a run that was killed ends with the same terms.

    Args:
        positions: Positions of the partition's samples, shape `[samples]`.
        steps: Last steps of the epochs that count, from `counted_steps`.
        steps_per_epoch: Updates per epoch.
        keep: Called with the terms of each epoch that counts.
        parameters: Names of the parameters to include; by default all.
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
        self._live: TrainingStepProducts | None = None
        self._scale = 1.0

    def counts(self, step: int) -> bool:
        """Return whether an update belongs to an epoch that counts."""
        return -(-step // self.steps_per_epoch) * self.steps_per_epoch in self.steps

    def losses(self, run: TrainingRun, step: Step, loss: Loss) -> Loss:
        """Wrap the loss of an update that counts, so that `after_backward` can take the products."""
        if not self.counts(step.number):
            return loss

        def watched(model: nn.Module, batch: Batch) -> torch.Tensor:
            if self._live is None or self._live.model is not model:
                with seeded("in-run"):  # probing must not advance the generators of training
                    self._live = TrainingStepProducts(model, loss, batch, self.parameters)
            optimizer = run.optimizer
            self._scale = optimizer.rule.mean(optimizer.settings, step.number - 1)
            return self._live.losses(batch, _direction(model, optimizer))

        return watched

    def after_backward(self, run: TrainingRun, step: Step) -> None:
        """Take the products of the update's samples before clipping changes the gradients."""
        if not self.counts(step.number):
            return
        assert self._live is not None, "losses come first"
        rows = self._order[np.searchsorted(self.positions, step.positions, sorter=self._order)]
        self._products[rows] = self._live.products().numpy() * self._scale
        self._rates.append(step.rate)

    def after_step(self, run: TrainingRun, step: Step) -> None:
        """Pass on the terms at the end of an epoch that counts.

        Raises:
            ValuesNotFinite: A product is not finite.
        """
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
        """Return the products and rates of the epoch so far."""
        return {"products": torch.from_numpy(self._products), "rates": torch.tensor(self._rates, dtype=torch.float64)}

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Resume with the products and rates of a checkpoint."""
        self._products = state["products"].numpy().copy()
        self._rates = state["rates"].tolist()


def _direction(model: nn.Module, optimizer: Optimizer) -> dict[str, torch.Tensor]:
    """Return the optimiser's weighted sum of past gradients, under the names of the parameters in `model`.

    Each parameter's part is multiplied by what its rate is multiplied by, so that one rate weighs the products.
    """
    held = next(iter(optimizer.slots.values()), {})
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    if not held:
        raise errors.RecipeUnsuitable("in-run scoring follows the momentum of training, but the optimiser has none")
    factors = optimizer.factors
    scaled = {own: value * factors[own] if own in factors else value for own, value in held.items()}
    return {names[id(optimizer.parameters[own])]: value for own, value in scaled.items()}
