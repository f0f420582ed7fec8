"""Definition 1 itself: leave-one-out by retraining a network without each sample.

    M(z) = L(S\\z, w_{S\\z}) - L(S\\z, w_S)

`w_S` is the network after `T` updates on `S`; `w_{S\\z}` is the network after as many updates from the same initial
state with the same batches, without `z`. **Without** means: in the batches that contain `z`, the loss of `z` has weight
0 and the mean is over the remaining B-1 samples; everything else is unchanged. In particular, batch norm in training
mode still sees the input of `z` (the statistics belong to the batch, not to the loss). If `z` is the only sample of its
batch, the update has a zero gradient, so that momentum and weight decay continue. Both risks are means over `S\\z` of
the evaluation view in evaluation mode, summed in float64.

Definition 1 refers to optima. Here training stops after `T` updates, as in the use of the score: at a true optimum no
score could be positive, because `w_{S\\z}` minimises the risk of `S\\z`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.data.views import View, load, split_evenly
from moso.evidence import Sampling, Trajectory, TrajectoryPoint, sample_steps
from moso.exact.stacked_models import StackedModels, at_precision, models_that_fit, runs_together
from moso.gradients import Loss, cross_entropy
from moso.progress import Progress, silent
from moso.randomness import reseed, seeded
from moso.training.recipe import TrainingRecipe
from moso.training.step_plan import Step, StepPlan, TrainingData


@dataclass(frozen=True)
class ExactResult:
    """The exact scores of the samples left out, and the trajectory on all of `S` from which they are approximated."""

    left_out: NDArray[np.int64]
    """Positions of the samples left out."""
    risk_without: NDArray[np.float64]
    """`L(S\\z, w_{S\\z})`, one per sample left out."""
    risk_with: NDArray[np.float64]
    """`L(S\\z, w_S)`, one per sample left out."""
    scores: NDArray[np.float64]
    """`M(z)`, one per sample left out."""
    trajectory: Trajectory
    """The trajectory of the training on all of `S`."""
    dtype: torch.dtype
    seconds: float

    @property
    def positive_share(self) -> float:
        """The share of scores above zero."""
        return float((self.scores > 0).mean())


def exact_scores(
    model: nn.Module,
    data: TrainingData,
    recipe: TrainingRecipe,
    *,
    seed: int,
    total_steps: int | None = None,
    left_out: NDArray[np.int64] | None = None,
    evaluation_view: View | None = None,
    loss: Loss = cross_entropy,
    time_steps: int | None = None,
    sampling: Sampling = "stratified",
    models_at_once: int | None = None,
    dtype: torch.dtype = torch.float32,
    progress: Progress = silent,
) -> ExactResult:
    """Compute Definition 1 by retraining without each sample of `left_out`.

    Training is that of `moso.training.loop.train` with the same seed.

    Args:
        model: The common initial network; not changed.
        data: The samples S.
        recipe: The training recipe, in float32.
        seed: Seed of training.
        total_steps: Number of updates; by default that of the recipe's epochs.
        left_out: Positions of the samples to leave out; by default all of `data.positions`.
        evaluation_view: The view for the risks; by default `data.view`, which fits if training does not augment.
        loss: Loss per sample.
        time_steps: Number of sampled steps in the trajectory; by default all steps.
        sampling: How these steps are sampled.
        models_at_once: Networks trained in one stack; by default as many as fit in `BLOCK_BYTES`.
        dtype: Precision of the networks.
        progress: Callback that is told how far the work is.

    Returns:
        Scores and risks, one per sample left out, and the trajectory on all of S.

    Raises:
        TooFewSamples: S has fewer than 2 samples.
        SampleUnknown: A sample of `left_out` is not in S.
        SettingInvalid: `left_out` is empty, or `models_at_once` is below 1.
        RecipeUnsuitable: The recipe does not train in float32.
        TrainingDiverged: A loss is not finite.

    Example:
        >>> from moso.data.views import as_view
        >>> view = as_view((np.eye(4), [0, 1, 0, 1]))
        >>> data = TrainingData(view, np.arange(4), np.arange(4, dtype=np.uint64))
        >>> recipe = TrainingRecipe(epochs=3, batch_size=4, learning_rate=0.1, schedule="constant", momentum=0.0)
        >>> exact_scores(nn.Linear(4, 2), data, recipe, seed=0).scores.shape
        (4,)
    """
    started = time.monotonic()
    chosen = _checked(data, recipe, data.positions if left_out is None else left_out)
    view = data.view if evaluation_view is None else evaluation_view
    network, loss = at_precision(model, loss, dtype)
    plan = StepPlan(data, recipe, seed, total_steps)
    run = _Run(plan, progress, plan.total * (1 + len(chosen)))
    block = _models_at_once(network, loss, plan, models_at_once)
    kept = set(sample_steps(plan.total, plan.total if time_steps is None else time_steps, seed, sampling).tolist())
    points = []
    whole = StackedModels(network, loss, 1, recipe, block > 0)

    def keep(step: Step) -> None:
        if step.number in kept:
            rates, groups = whole.groups(step.rate)
            state, moments = whole.state(0), whole.moments(0)
            points.append(TrajectoryPoint(step.number, rates, groups, step.epoch, memory=state, moments=moments))

    run.train(whole, np.array([-1]), keep)
    before = run.losses(whole, view)[0]
    without, with_sample, scores = [], [], []
    for positions in split_evenly(chosen, max(block, 1)):
        networks = StackedModels(network, loss, len(positions), recipe, block > 0)
        run.train(networks, positions)
        others = positions[:, None] != data.positions[None, :]
        after = run.losses(networks, view)
        without.append(_mean(after, others))
        with_sample.append(_mean(np.broadcast_to(before, after.shape), others))
        scores.append(_mean(after - before, others))
    return ExactResult(
        chosen,
        np.concatenate(without),
        np.concatenate(with_sample),
        np.concatenate(scores),
        Trajectory(points, plan.total),
        dtype,
        time.monotonic() - started,
    )


def _models_at_once(network: nn.Module, loss: Loss, plan: StepPlan, asked: int | None) -> int:
    """Return how many networks train in one stack, or 0 if networks of this kind cannot be stacked."""
    first = plan.data.view.batch(plan.batches(0)[0], 0)
    with seeded(plan.seed, "probe"):
        together = runs_together(network, loss, first, plan.recipe)
        block = models_that_fit(network, loss, first) if asked is None else asked
    if block < 1:
        raise errors.SettingInvalid(f"{block} models at once were asked for; at least 1 is needed")
    return block if together else 0


@dataclass
class _Run:
    """The batches, learning rates and random draws that all networks share, and the updates done so far."""

    plan: StepPlan
    progress: Progress
    updates: int
    done: int = 0

    def train(
        self, networks: StackedModels, left_out: NDArray[np.int64], on_step: Callable[[Step], None] | None = None
    ) -> None:
        """Train the networks, each without its own sample of `left_out` (-1: on all samples)."""
        plan = self.plan
        with seeded(plan.seed, "training"):
            for step, batch in plan.walk(range(1, plan.total + 1)):
                reseed(plan.seed, "update", step.number)
                losses = networks.step(batch, loss_weights(step.positions, left_out), step.rate)
                if not bool(torch.isfinite(losses).all()):
                    self._refuse(losses, left_out, step.number, step.rate)
                if on_step is not None:
                    on_step(step)
                self.done += networks.count
                self.progress("exact leave-one-out", self.done, self.updates)

    def losses(self, networks: StackedModels, view: View) -> NDArray[np.float64]:
        """Return the losses of all samples of `S` after training, shape ``[models, samples]``."""
        batches = split_evenly(self.plan.data.positions, self.plan.recipe.batch_size)
        parts = [networks.losses(batch).double().cpu() for batch in load(view, batches)]
        return np.asarray(torch.cat(parts, dim=1).numpy())

    def _refuse(self, losses: torch.Tensor, left_out: NDArray[np.int64], step: int, rate: float) -> None:
        position = int(left_out[int(torch.argmin(torch.isfinite(losses).int()))])
        which = "on all samples" if position < 0 else f"without the sample at position {position}"
        raise errors.TrainingDiverged(
            f"training {which}: the loss is not finite at step {step} of {self.plan.total} with learning rate "
            f"{rate:.3g}; lower the learning rate or clip gradients"
        )


def loss_weights(batch: NDArray[np.int64], left_out: NDArray[np.int64]) -> torch.Tensor:
    """Return the weight of each loss of a batch for each network: the mean over all but the network's own sample.

    Args:
        batch: Positions of the batch, shape ``[batch]``.
        left_out: Position that each network leaves out, shape ``[models]``.

    Returns:
        Float64 weights, shape ``[models, batch]``.

    Example:
        >>> loss_weights(np.array([4, 5]), np.array([5, 6]))
        tensor([[1.0000, 0.0000],
                [0.5000, 0.5000]], dtype=torch.float64)
    """
    others = torch.from_numpy(left_out[:, None] != batch[None, :])
    return others.double() / others.sum(dim=1, keepdim=True).clamp(min=1)


def _mean(values: NDArray[np.float64], others: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.asarray(np.where(others, values, 0.0).sum(axis=1) / others.sum(axis=1))


def _checked(data: TrainingData, recipe: TrainingRecipe, left_out: NDArray[np.int64]) -> NDArray[np.int64]:
    chosen = np.asarray(left_out, dtype=np.int64)
    if len(data.positions) < 2:
        raise errors.TooFewSamples(f"a set of {len(data.positions)} samples cannot leave one out; it needs at least 2")
    if len(chosen) == 0:
        raise errors.SettingInvalid("left_out is empty; name at least one sample to leave out")
    strangers = chosen[~np.isin(chosen, data.positions)]
    if len(strangers):
        raise errors.SampleUnknown(
            f"sample {int(strangers[0])} cannot be left out: it is not among the samples trained on"
        )
    if recipe.precision != "float32":
        raise errors.RecipeUnsuitable(
            f"exact leave-one-out cannot train in {recipe.precision}, whose rounding is larger than what one sample "
            "changes; use a recipe with precision 'float32'"
        )
    return chosen
