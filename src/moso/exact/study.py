"""The accuracy of the approximation: exact scores against Proposition 1.1, over learning rates and numbers of steps.

Both come from the same run: the exact scores from retraining without each sample, the approximation from the trajectory
of the training on all samples. Proposition 1.2 bounds their difference by a term without a factor 1/N that does not
vanish with the learning rate, so even a score of zero satisfies the bound. More informative is the error *relative to
the standard deviation of the exact scores*, and the exponents with which this error grows in rate and steps.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.data.views import View
from moso.evaluation.statistics import Interval, PowerLaw, correlation, power_law
from moso.evidence import PartitionTerms, StepTerms, TrajectoryPoint, step_terms
from moso.exact.leave_one_out import ExactResult, exact_scores
from moso.exact.stacked_models import at_precision
from moso.gradients import Loss, cross_entropy
from moso.progress import Progress, silent
from moso.scores import Form, moso_rank_score, moso_score, moso_standardised_score
from moso.training.loop import TrainingData
from moso.training.recipe import TrainingRecipe

GRID_RATES = (0.05, 0.1, 0.5)
GRID_STEPS = (1, 5, 20, 100)
# Scores on the scale of Definition 1; the others are meaningful as rankings only.
SAME_SCALE = ("moso", "moso-centred")


@dataclass(frozen=True)
class Error:
    """The error of an approximation of the exact scores."""

    root_mean_square: float
    largest: float
    spread: float
    """The standard deviation of the exact scores."""

    @property
    def relative(self) -> float:
        """The root mean square error in units of the exact scores' standard deviation."""
        return self.root_mean_square / self.spread if self.spread > 0 else math.nan


@dataclass(frozen=True)
class Bound:
    """Proposition 1.2 with measured constants: `(l eta + 1) g T + eta g^2 T`."""

    lipschitz: float
    """`l`: the largest gradient norm of a sample's loss, over the initial state and the recorded time steps."""
    gradient_norm: float
    """`g`: the largest norm of the mean gradient, over the same states."""
    learning_rate: float
    """The highest rate of the run."""
    steps: int

    @property
    def value(self) -> float:
        """The bound on the error, up to the constant that the proposition leaves open."""
        rate, g = self.learning_rate, self.gradient_norm
        return (self.lipschitz * rate + 1) * g * self.steps + rate * g**2 * self.steps


@dataclass(frozen=True)
class Comparison:
    """Exact scores and their approximations from the same run, with correlations, errors and the bound."""

    exact: ExactResult
    approximations: Mapping[str, NDArray[np.float64]]
    spearman: Mapping[str, Interval]
    pearson: Mapping[str, Interval]
    errors: Mapping[str, Error]
    bound: Bound
    time_steps: int


def compare_with_approximation(
    model: nn.Module,
    exact: ExactResult,
    view: View,
    positions: NDArray[np.int64],
    *,
    seed: int,
    form: Form = "paper",
    loss: Loss = cross_entropy,
    batch_size: int = 256,
) -> Comparison:
    """Score the same run by Proposition 1.1 and compare the result with the exact scores.

    Args:
        model: The initial network that `exact_scores` was given.
        exact: The exact scores.
        view: The evaluation view.
        positions: Positions of all of S.
        seed: Seed of the bootstrap intervals.
        form: Form of `moso-standardised` and `moso-rank`; `moso` is computed in both forms.
        loss: Loss per sample.
        batch_size: Samples per batch of scoring.
    """
    network, loss = at_precision(model, loss, exact.dtype)
    start = TrajectoryPoint(0, (0.0,), memory=network.state_dict())

    def terms_of(point: TrajectoryPoint) -> StepTerms:
        return step_terms(network, point, view, positions, loss=loss, batch_size=batch_size)

    terms = PartitionTerms(exact.trajectory.total_steps, [terms_of(point) for point in exact.trajectory])
    order = np.argsort(positions, kind="stable")
    rows = order[np.searchsorted(positions, exact.left_out, sorter=order)]
    scores = {
        "moso": moso_score(terms, "paper"),
        "moso-centred": moso_score(terms, "centred"),
        "moso-standardised": moso_standardised_score(terms, form),
        "moso-rank": moso_rank_score(terms, form),
    }
    own = {name: values[rows] for name, values in scores.items()}
    return Comparison(
        exact,
        own,
        {name: correlation(exact.scores, values, "spearman", seed) for name, values in own.items()},
        {name: correlation(exact.scores, values, "pearson", seed) for name, values in own.items()},
        {name: _error(exact.scores, own[name]) for name in SAME_SCALE},
        _bound(terms, terms_of(start)),
        len(exact.trajectory),
    )


def _error(exact: NDArray[np.float64], approximation: NDArray[np.float64]) -> Error:
    difference = np.abs(exact - approximation)
    return Error(float(np.sqrt(np.square(difference).mean())), float(difference.max()), float(exact.std()))


def _bound(terms: PartitionTerms, start: StepTerms) -> Bound:
    steps = [start, *terms.steps]
    # |G|^2 is the mean of G . g_z; at an optimum rounding can make it negative.
    mean_norm = max(math.sqrt(max(0.0, float(step.dot.sum(axis=0).mean()))) for step in steps)
    sample_norm = max(math.sqrt(float(step.squared_norm.sum(axis=0).max())) for step in steps)
    rate = max(max(step.learning_rates) for step in terms.steps)
    return Bound(sample_norm, mean_norm, rate, terms.total_steps)


@dataclass(frozen=True)
class Study:
    """Comparisons over a grid of learning rates and steps, ordered by rate, then steps."""

    comparisons: Sequence[Comparison]
    growth: Mapping[str, PowerLaw] = field(default_factory=dict)
    """Power laws of the relative error in `rate` and `steps`, for the approximations on the scale of Definition 1."""


def study(
    model: nn.Module,
    data: TrainingData,
    recipe: TrainingRecipe,
    *,
    seed: int,
    rates: Sequence[float] = GRID_RATES,
    steps: Sequence[int] = GRID_STEPS,
    left_out: NDArray[np.int64] | None = None,
    evaluation_view: View | None = None,
    loss: Loss = cross_entropy,
    time_steps: int | None = None,
    form: Form = "paper",
    dtype: torch.dtype = torch.float32,
    progress: Progress = silent,
) -> Study:
    """Compute exact scores and their approximation for every learning rate and number of steps.

    Args:
        model: The initial network; not changed.
        data: The samples S.
        recipe: The training recipe, of which rate and epochs are replaced.
        seed: Seed of training and of the bootstrap intervals.
        rates: Learning rates of the grid.
        steps: Numbers of updates of the grid.
        left_out: Positions of the samples to leave out; by default all.
        evaluation_view: The view for the risks; by default `data.view`.
        loss: Loss per sample.
        time_steps: Number of sampled steps in the trajectory; by default all.
        form: Form of `moso-standardised` and `moso-rank`.
        dtype: Precision of the networks.
        progress: Callback that is told how far the work is.

    Raises:
        SettingInvalid: `rates` or `steps` is empty.
    """
    if not rates or not steps:
        raise errors.SettingInvalid("a grid needs at least one learning rate and one number of steps")
    view = data.view if evaluation_view is None else evaluation_view
    comparisons = []
    for rate in rates:
        for total in steps:
            exact = exact_scores(
                model,
                data,
                recipe.changed(learning_rate=rate, epochs=-(-total // data.steps_per_epoch(recipe.batch_size))),
                seed=seed,
                total_steps=total,
                left_out=left_out,
                evaluation_view=evaluation_view,
                loss=loss,
                time_steps=None if time_steps is None else min(time_steps, total),
                dtype=dtype,
                progress=partial(_with_setting, progress, f"{total} steps x {rate:g}"),
            )
            comparisons.append(
                compare_with_approximation(model, exact, view, data.positions, seed=seed, form=form, loss=loss)
            )
    return Study(comparisons, {name: _growth(comparisons, name) for name in SAME_SCALE})


def _with_setting(progress: Progress, setting: str, label: str, done: float, total: float) -> None:
    progress(f"{label}, {setting}", done, total)


def _growth(comparisons: Sequence[Comparison], name: str) -> PowerLaw:
    return power_law(
        np.array([comparison.errors[name].relative for comparison in comparisons]),
        {
            "rate": np.array([comparison.bound.learning_rate for comparison in comparisons]),
            "steps": np.array([float(comparison.bound.steps) for comparison in comparisons]),
        },
    )
