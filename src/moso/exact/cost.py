"""The cost of exact scoring, extrapolated from a few measured steps.

N retrainings of T steps grow with the square of the data. The paper estimates more than 45 years for ImageNet-1K on one
Tesla V100, and therefore approximates.
"""

import copy
import time
from dataclasses import dataclass

import numpy as np
from torch import nn

from moso.data.views import View
from moso.evidence import TrajectoryPoint, step_terms
from moso.exact.leave_one_out import loss_weights
from moso.exact.stacked_models import StackedModels, models_that_fit, runs_together
from moso.gradients import Loss, cross_entropy
from moso.progress import Progress, silent
from moso.randomness import seeded
from moso.training.loop import AfterStep, StepPlan, TrainingData, train
from moso.training.recipe import TrainingRecipe

CALIBRATION_STEPS = 3
SCORING_BATCH = 256
# More stacked networks than this are not faster per network, and the calibration should be short.
CALIBRATION_NETWORKS = 32


@dataclass(frozen=True)
class ExactCost:
    """Measured seconds per unit of work, and the totals that follow from them."""

    samples: int
    steps: int
    time_steps: int
    step_seconds: float
    """One update of one network, trained alone."""
    side_by_side_seconds: float
    """One update of one network, trained in a stack of `networks`."""
    networks: int
    scoring_seconds: float
    """One sample at one time step."""

    @property
    def one_training(self) -> float:
        """Seconds of one training run on all samples."""
        return self.steps * self.step_seconds

    @property
    def moso(self) -> float:
        """Seconds of MoSo: training the surrogate, and scoring every sample at every time step."""
        return self.one_training + self.time_steps * self.samples * self.scoring_seconds

    @property
    def one_after_another(self) -> float:
        """Seconds of Definition 1 with sequential trainings: one per sample, and one on all samples."""
        return (self.samples + 1) * self.one_training

    @property
    def side_by_side(self) -> float:
        """Seconds of Definition 1 with networks trained in stacks, as `exact_scores` does."""
        return self.one_training + self.samples * self.steps * self.side_by_side_seconds


def exact_cost(
    model: nn.Module,
    data: TrainingData,
    recipe: TrainingRecipe,
    *,
    seed: int,
    total_steps: int | None = None,
    time_steps: int = 10,
    evaluation_view: View | None = None,
    loss: Loss = cross_entropy,
    progress: Progress = silent,
) -> ExactCost:
    """Time a few steps of each kind of work.

    Args:
        model: The initial network; not changed.
        data: The samples S.
        recipe: The training recipe.
        seed: Seed of training.
        total_steps: Number of updates; by default that of the recipe's epochs.
        time_steps: Time steps that MoSo would score.
        evaluation_view: The view for scoring; by default `data.view`.
        loss: Loss per sample.
        progress: Callback that is told how far the calibration is.

    Example:
        >>> from moso.data.views import as_view
        >>> data = TrainingData(as_view((np.eye(4), [0, 1, 0, 1])), np.arange(4), np.arange(4, dtype=np.uint64))
        >>> recipe = TrainingRecipe(epochs=3, batch_size=2, learning_rate=0.1, schedule="constant")
        >>> cost = exact_cost(nn.Linear(4, 2), data, recipe, seed=0)
        >>> cost.steps, cost.one_after_another == 5 * cost.one_training
        (6, True)
    """
    steps = StepPlan(data, recipe, seed, total_steps).total
    step_seconds = _step_seconds(model, data, recipe, seed, loss)
    progress("calibration", 1, 3)
    networks, together_seconds = _side_by_side(model, data, recipe, seed, loss)
    progress("calibration", 2, 3)
    scoring_seconds = _scoring_seconds(model, data, data.view if evaluation_view is None else evaluation_view, loss)
    progress("calibration", 3, 3)
    return ExactCost(
        len(data.positions),
        steps,
        min(time_steps, steps),
        step_seconds,
        step_seconds if networks == 1 else together_seconds,
        networks,
        scoring_seconds,
    )


def _step_seconds(model: nn.Module, data: TrainingData, recipe: TrainingRecipe, seed: int, loss: Loss) -> float:
    marks: list[float] = []
    train(
        copy.deepcopy(model),
        StepPlan(data, recipe, seed, CALIBRATION_STEPS + 1),
        loss=loss,
        callbacks=[AfterStep(lambda run, step: marks.append(time.monotonic()))],
    )
    return float(np.median(np.diff(marks)))  # differences leave out the first step, which includes warm-up


def _side_by_side(
    model: nn.Module, data: TrainingData, recipe: TrainingRecipe, seed: int, loss: Loss
) -> tuple[int, float]:
    """Return how many networks train at once, and the seconds per update and network (NaN, not timed, if only one)."""
    positions = data.epoch_batches(recipe.batch_size, 0, seed)[0]
    batch = data.view.batch(positions, 0)
    with seeded(seed, "calibration"):
        count = min(models_that_fit(model, loss, batch), CALIBRATION_NETWORKS, len(data.positions))
        if count == 1 or not runs_together(model, loss, batch, recipe):
            return 1, float("nan")
        networks = StackedModels(model, loss, count, recipe)
        weights = loss_weights(positions, np.resize(positions, count))
        timings = []
        for _ in range(CALIBRATION_STEPS):
            started = time.monotonic()
            networks.step(batch, weights, recipe.learning_rate)
            timings.append(time.monotonic() - started)
    return count, float(np.median(timings)) / count


def _scoring_seconds(model: nn.Module, data: TrainingData, view: View, loss: Loss) -> float:
    some = data.positions[:SCORING_BATCH]
    point = TrajectoryPoint(1, (1.0,), memory=model.state_dict())
    timings = []
    for _ in range(2):
        started = time.monotonic()
        step_terms(model, point, view, some, loss=loss, batch_size=SCORING_BATCH)
        timings.append(time.monotonic() - started)
    return min(timings) / len(some)
