"""Measuring a trajectory: at each sampled step, the two terms of every sample of the partition."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import nn

from moso.data.views import View, load, split_evenly
from moso.errors import MosoError
from moso.evidence.estimators import Estimator, EstimatorName, Load, as_estimator
from moso.evidence.terms import StepTerms
from moso.evidence.trajectory import TrajectoryPoint
from moso.gradients import (
    PROBES,
    Loss,
    Point,
    Risk,
    batch_size_for,
    cross_entropy,
    directional_derivatives,
    risk_gradient,
    to_device,
)

ParameterFilter = Callable[[str], bool]


def step_terms(
    model: nn.Module,
    point: TrajectoryPoint,
    view: View,
    positions: NDArray[np.int64],
    *,
    loss: Loss = cross_entropy,
    batch_size: int | None = None,
    parameters: ParameterFilter | None = None,
    loader_workers: int = 0,
    estimator: Estimator | EstimatorName = "exact",
    risk: Risk | None = None,
) -> StepTerms:
    """The terms of one time step, in the order of `positions`; `model` lends its architecture and keeps its weights.

    Without a `batch_size` one is found that suits the network and the device. `estimator` is a cheaper way than the
    exact one, by name or with settings of its own. With a `risk` its gradient takes the place of the samples' own mean
    gradient, and squared norms, which are of no use then, are zero.

    >>> from moso.data.views import as_view
    >>> model, view = nn.Linear(2, 2), as_view((np.eye(2), [0, 1]))
    >>> point = TrajectoryPoint(1, (0.1,), memory=model.state_dict())
    >>> step_terms(model, point, view, np.arange(2)).dot.shape
    (1, 2)
    """
    point = point.fitted_to(model)
    at, batches = prepared(model, point, view, positions, loss, batch_size, parameters, loader_workers)

    if risk is not None:
        if as_estimator(estimator).name != "exact":
            raise MosoError("another risk than the training risk is differentiated exactly; use estimator 'exact'")
        dot = directional_derivatives(at, lambda: batches(positions), risk_gradient(at, risk), point.groups)
        return checked(StepTerms(point.step, point.learning_rates, dot, np.zeros_like(dot), False), positions)
    measured = as_estimator(estimator).time_step(at, batches, positions, point.groups, point.step)
    return checked(StepTerms(point.step, point.learning_rates, measured.dot, measured.squared_norm), positions)


def prepared(
    model: nn.Module,
    point: TrajectoryPoint,
    view: View,
    positions: NDArray[np.int64],
    loss: Loss,
    batch_size: int | None,
    parameters: ParameterFilter | None,
    loader_workers: int,
) -> tuple[Point, Load]:
    """The network at a step, and how samples of its partition come in batches, as the view has them in its epoch."""
    if len(positions) < 2:
        raise MosoError(f"a partition of {len(positions)} samples cannot leave one out; it needs at least 2")
    point = point.fitted_to(model)
    at = Point.of(model, loss, point.state(), _moving(point, parameters))
    size = batch_size or batch_size_for(at, to_device(view.batch(positions[:PROBES], point.epoch), at.device))
    return at, lambda chosen: load(view, split_evenly(chosen, size), point.epoch, loader_workers)


def _moving(point: TrajectoryPoint, parameters: ParameterFilter | None) -> ParameterFilter | None:
    """The user's own filter, and no parameter that did not move at the step."""
    if not point.groups:
        return parameters
    moved = {name for group in point.groups for name in group}
    return lambda name: name in moved and (parameters is None or parameters(name))


def checked(terms: StepTerms, positions: NDArray[np.int64]) -> StepTerms:
    """The terms, refused where there is not one a sample or one is not finite."""
    dot, squared_norm = terms.dot, terms.squared_norm
    if dot.shape[1] != len(positions):
        raise MosoError(f"the loss gave {dot.shape[1]} values for {len(positions)} samples; it must give one a sample")
    if not (np.isfinite(dot).all() and np.isfinite(squared_norm).all()):
        bad = int(positions[np.argmax(~np.isfinite(dot + squared_norm).all(axis=0))])
        raise MosoError(f"the gradient of sample {bad} at step {terms.step} is not finite; look at its input and loss")
    return terms
