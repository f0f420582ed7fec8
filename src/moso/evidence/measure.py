"""Measuring a trajectory: the two terms of every sample of the partition at each sampled step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.batch import Batch
from moso.data.views import View, load, split_evenly
from moso.errors import SampleError
from moso.evidence.estimators import Estimator, EstimatorName, Load, as_estimator
from moso.evidence.terms import StepTerms
from moso.evidence.trajectory import TrajectoryPoint
from moso.gradients import (
    PROBES,
    Collated,
    Loss,
    Point,
    Risk,
    batch_size_for,
    cross_entropy,
    derivatives_along,
    directional_derivatives,
    gradient_sums,
    is_sliceable,
    mean_of,
    risk_gradient,
    to_device,
)

ParameterFilter = Callable[[str], bool]


class StepOptions(TypedDict, total=False):
    """Arguments of `risk_terms` by name, with the same meanings and defaults."""

    loss: Loss
    batch_size: int | None
    parameters: ParameterFilter | None
    loader_workers: int
    estimator: Estimator | EstimatorName


def step_terms(
    model: nn.Module,
    point: TrajectoryPoint,
    view: View,
    positions: NDArray[np.int64],
    *,
    risk: Risk | None = None,
    **options: Unpack[StepOptions],
) -> StepTerms:
    """Return the terms of one time step, in the order of `positions`; the weights of `model` do not change.

    Args:
        model: The network, whose architecture is used with the state of `point`.
        point: The time step.
        view: Samples, as they are in the step's epoch.
        positions: Positions of the partition's samples, shape `[samples]`.
        risk: Risk whose gradient replaces the mean gradient of the samples; squared norms are then unused and zero.
        **options: Further arguments of `risk_terms`: loss, batch size, parameters, processes that load, estimator.

    Raises:
        TooFewSamples: There are fewer than 2 positions.
        TrainingDiverged: The state of the step is not finite.
        ValuesNotFinite: A gradient is not finite.
        SettingsConflict: `risk` is given with an estimator other than `exact`.

    Example:
        >>> from moso.data.views import as_view
        >>> model, view = nn.Linear(2, 2), as_view((np.eye(2), [0, 1]))
        >>> point = TrajectoryPoint(1, (0.1,), memory=model.state_dict())
        >>> step_terms(model, point, view, np.arange(2)).dot.shape
        (1, 2)
    """
    return risk_terms(model, point, view, positions, None if risk is None else [risk], **options)[0]


def risk_terms(
    model: nn.Module,
    point: TrajectoryPoint,
    view: View,
    positions: NDArray[np.int64],
    risks: Sequence[Risk] | None,
    *,
    loss: Loss = cross_entropy,
    batch_size: int | None = None,
    parameters: ParameterFilter | None = None,
    loader_workers: int = 0,
    estimator: Estimator | EstimatorName = "exact",
) -> list[StepTerms]:
    """Return the terms of one time step for several risks; the samples are read once for all of them.

    Args:
        model: The network.
        point: The time step.
        view: Samples, as they are in the step's epoch.
        positions: Positions of the partition's samples, shape `[samples]`.
        risks: The risks; None for the training risk of the samples alone.
        loss: One loss per sample of a batch, shape `[batch]`.
        batch_size: Samples per batch; by default a size that suits network and device.
        parameters: Names of the parameters to include; by default all that moved at the step.
        loader_workers: Processes that load batches ahead.
        estimator: Estimator, by name or with settings of its own.

    Returns:
        The terms of each risk, in the order of `risks`.

    Raises:
        MosoError: As for `step_terms`.
    """
    point = point.fitted_to(model)
    at, batches = prepared(model, point, view, positions, loss, batch_size, parameters, loader_workers)
    try:
        if risks is not None:
            return _of_risks(at, batches, point, positions, estimator, risks)
        measured = as_estimator(estimator).time_step(at, batches, positions, point.groups, point.step)
    except SampleError as problem:
        raise problem.of(f"sample {positions[problem.index]} at step {point.step}") from problem.__cause__
    return [checked(StepTerms(point.step, point.learning_rates, measured.dot, measured.squared_norm), positions)]


def _of_risks(
    at: Point,
    batches: Load,
    point: TrajectoryPoint,
    positions: NDArray[np.int64],
    estimator: Estimator | EstimatorName,
    risks: Sequence[Risk],
) -> list[StepTerms]:
    if as_estimator(estimator).name != "exact":
        raise errors.SettingsConflict(
            "another risk than the training risk is differentiated exactly; use estimator 'exact'"
        )
    directions = [at.along(risk_gradient(at, risk)) for risk in risks]
    for name, value in (entry for direction in directions for entry in direction.items()):
        if not bool(torch.isfinite(value).all()):
            raise errors.ValuesNotFinite(f"the gradient of the risk by {name} is not finite at step {point.step}")
    dots = derivatives_along(at, lambda: batches(positions), directions, point.groups)
    return [
        checked(StepTerms(point.step, point.learning_rates, dot, np.zeros_like(dot), False), positions) for dot in dots
    ]


def judged_terms(
    model: nn.Module,
    point: TrajectoryPoint,
    view: View,
    trained_on: NDArray[np.int64],
    judged: NDArray[np.int64],
    *,
    loss: Loss = cross_entropy,
    batch_size: int | None = None,
    parameters: ParameterFilter | None = None,
    loader_workers: int = 0,
) -> StepTerms:
    """Return `G . g_z` of samples that a network was not trained on, with `G` the mean gradient of those it was.

    Args:
        model: The network, whose architecture is used with the state of `point`.
        point: The time step.
        view: Samples, as they are in the step's epoch.
        trained_on: Positions of the samples whose mean gradient is `G`, shape `[samples]`.
        judged: Positions of the samples to compare with it, shape `[judged]`; none of `trained_on`.
        loss: One loss per sample of a batch, shape `[batch]`.
        batch_size: Samples per batch; by default a size that suits network and device.
        parameters: Names of the parameters to include; by default all that moved at the step.
        loader_workers: Processes that load batches ahead.

    Returns:
        The terms in the order of `judged`; squared norms are unused and zero, because no sample has a share in `G`.

    Raises:
        TooFewSamples: There are fewer than 2 positions in `trained_on`.
        TrainingDiverged: The state of the step is not finite.
        ValuesNotFinite: A gradient is not finite.

    Example:
        >>> from moso.data.views import as_view
        >>> model, view = nn.Linear(3, 2), as_view((np.eye(3), [0, 1, 0]))
        >>> point = TrajectoryPoint(1, (0.1,), memory=model.state_dict())
        >>> judged_terms(model, point, view, np.arange(2), np.array([2])).dot.shape
        (1, 1)
    """
    at, batches = prepared(model, point, view, trained_on, loss, batch_size, parameters, loader_workers)
    groups, asked = point.fitted_to(model).groups, trained_on
    try:
        total, _ = gradient_sums(at, lambda: batches(trained_on), groups)
        asked, direction = judged, at.along(mean_of(at, total, len(trained_on)))
        dot = directional_derivatives(at, lambda: batches(judged), direction, groups)
    except SampleError as problem:
        raise problem.of(f"sample {asked[problem.index]} at step {point.step}") from problem.__cause__
    return checked(StepTerms(point.step, point.learning_rates, dot, np.zeros_like(dot), own_risk=False), judged)


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
    """Return the network at a step and a function that loads batches of its partition, as in the step's epoch."""
    if len(positions) < 2:
        raise errors.TooFewSamples(f"a partition of {len(positions)} samples cannot leave one out; it needs at least 2")
    if batch_size is not None and batch_size < 1:
        raise errors.SettingInvalid(f"batch_size={batch_size}: a batch needs at least 1 sample")
    point = point.fitted_to(model)
    state = point.state()
    check_finite_state(state, point.step)
    at = Point.of(model, loss, state, moving_parameters(point, parameters))
    if point.is_preconditioned:
        at = at.measured_by(point.moments_for(model).preconditioner())

    def batches(chosen: NDArray[np.int64]) -> Iterator[Batch]:
        plan = split_evenly(chosen, size)
        for members, batch in zip(plan, load(view, plan, point.epoch, loader_workers), strict=True):
            yield as_batch(batch, view, members, point.epoch)

    if batch_size is not None:
        size = batch_size
    else:
        some = positions[:PROBES]
        probe = as_batch(view.batch(some, point.epoch), view, some, point.epoch)
        size = batch_size_for(at, to_device(probe, at.device))
    return at, batches


def as_batch(batch: Batch, view: View, members: NDArray[np.int64], epoch: int) -> Batch:
    """Return the batch of these positions; a batch that cannot be sliced is wrapped and collates its samples again."""
    if is_sliceable(batch, len(members)):
        return batch

    def again(start: int, stop: int) -> Collated:
        some = members[start:stop]
        return Collated(view.batch(some, epoch), len(some), lambda one, other: again(start + one, start + other))

    return Collated(batch, len(members), again)


def check_finite_state(state: Mapping[str, torch.Tensor], step: int) -> None:
    """Refuse a checkpoint with values that are not finite.

    Raises:
        TrainingDiverged: With the first such tensor and the step.
    """
    for name, value in state.items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise errors.TrainingDiverged(
                f"{name} is not finite at step {step} of the trajectory: training had diverged there; "
                "score earlier steps or train with a lower learning rate"
            )


def moving_parameters(point: TrajectoryPoint, parameters: ParameterFilter | None) -> ParameterFilter | None:
    """Combine the user's filter with a filter for the parameters that moved at the step."""
    if not point.groups:
        return parameters
    moved = {name for group in point.groups for name in group}
    return lambda name: name in moved and (parameters is None or parameters(name))


def checked(terms: StepTerms, positions: NDArray[np.int64]) -> StepTerms:
    """Return the terms after checking that there is one per sample and that all are finite.

    Raises:
        LossInvalid: The number of terms is not the number of samples.
        ValuesNotFinite: A term is not finite.
    """
    dot, squared_norm = terms.dot, terms.squared_norm
    if dot.shape[1] != len(positions):
        counts = f"{dot.shape[1]} values for {len(positions)} samples"
        raise errors.LossInvalid(f"the loss gave {counts}; it must give one per sample")
    if not (np.isfinite(dot).all() and np.isfinite(squared_norm).all()):
        # One non-finite gradient makes every product with the mean non-finite, but no other sample's norm.
        told = squared_norm if not np.isfinite(squared_norm).all() else dot
        bad = int(positions[np.argmax(~np.isfinite(told).all(axis=0))])
        raise errors.ValuesNotFinite(
            f"the gradient of sample {bad} at step {terms.step} is not finite; look at its input and loss"
        )
    return terms
