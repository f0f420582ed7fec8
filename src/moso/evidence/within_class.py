"""Step terms within classes: every sample against the mean gradient of the samples that carry its own label."""

import numpy as np
from numpy.typing import NDArray
from torch import nn

from moso.data.views import View
from moso.errors import SampleError
from moso.evidence.measure import ParameterFilter, checked, prepared
from moso.evidence.terms import StepTerms
from moso.evidence.trajectory import TrajectoryPoint
from moso.gradients import Loss, cross_entropy, time_step


def class_terms(
    model: nn.Module,
    point: TrajectoryPoint,
    view: View,
    positions: NDArray[np.int64],
    labels: NDArray[np.int64],
    *,
    loss: Loss = cross_entropy,
    batch_size: int | None = None,
    parameters: ParameterFilter | None = None,
    loader_workers: int = 0,
) -> StepTerms:
    """Return the agreement of every sample with the mean gradient of the *other* samples of its label.

    With `n` samples of the label, `G_y` their mean gradient: `a(z) = (n G_y . g_z - |g_z|^2) / (n - 1)`; 0 for the
    only sample of a label, which has no others.

    Args:
        model: The network, whose architecture is used with the state of `point`.
        point: The time step.
        view: Samples, as they are in the step's epoch.
        positions: Positions of the partition's samples, shape `[samples]`.
        labels: The label of each of them, shape `[samples]`.
        loss: One loss per sample of a batch, shape `[batch]`.
        batch_size: Samples per batch; by default a size that suits network and device.
        parameters: Names of the parameters to include; by default all that moved at the step.
        loader_workers: Processes that load batches ahead.

    Returns:
        The agreement in `dot`, in the order of `positions`; squared norms have been used and are zero.

    Raises:
        TooFewSamples: There are fewer than 2 positions.
        TrainingDiverged: The state of the step is not finite.
        ValuesNotFinite: A gradient is not finite.

    Example:
        >>> from moso.data.views import as_view
        >>> model, view = nn.Linear(3, 2), as_view((np.eye(3), [0, 1, 0]))
        >>> point = TrajectoryPoint(1, (0.1,), memory=model.state_dict())
        >>> float(class_terms(model, point, view, np.arange(3), np.array([0, 1, 0])).dot[0, 1])
        0.0
    """
    at, batches = prepared(model, point, view, positions, loss, batch_size, parameters, loader_workers)
    fitted = point.fitted_to(model)
    found = np.zeros((max(1, len(fitted.groups)), len(positions)))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        count, own = len(members), positions[members]
        if count < 2:
            continue
        try:
            step = time_step(at, lambda own=own: batches(own), fitted.groups)  # type: ignore[misc]
        except SampleError as problem:
            raise problem.of(f"sample {own[problem.index]} at step {point.step}") from problem.__cause__
        found[:, members] = (count * step.dot - step.squared_norm) / (count - 1)
    terms = StepTerms(point.step, fitted.learning_rates, found, np.zeros_like(found), own_risk=False)
    return checked(terms, positions)
