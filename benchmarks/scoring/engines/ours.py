"""moso's own engine, with and without the term that is the sample's own."""

import numpy as np
from torch import nn

from benchmarks.scoring.engines.engine import Scores
from benchmarks.scoring.problem import Batches
from moso.evidence import StepTerms
from moso.gradients import Loss, Point, directional_derivatives, mean_gradient, time_step
from moso.scores import agreement


def exact(model: nn.Module, loss: Loss, batches: Batches) -> Scores:
    """`a_t(z)`, in two sweeps."""
    step = time_step(Point.of(model, loss), lambda: batches)
    return agreement(StepTerms(1, (1.0,), step.dot, step.squared_norm))


def without_norm(model: nn.Module, loss: Loss, batches: Batches) -> Scores:
    """`G . g_z` alone: what is left of the score where `N` is large."""
    point = Point.of(model, loss)
    mean = mean_gradient(point, lambda: batches)
    return np.asarray(directional_derivatives(point, lambda: batches, mean)[0])
