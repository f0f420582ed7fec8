"""The gradient engine: it knows networks, layers and losses, and nothing of methods or files."""

from moso.gradients.engine import TimeStep, directional_derivatives, mean_gradient, squared_norms, time_step
from moso.gradients.fitting import batch_size_for
from moso.gradients.losses import Loss, batch_length, cross_entropy, map_tensors, to_device
from moso.gradients.point import Point, evaluation_mode
from moso.gradients.probe import PROBES

__all__ = [
    "PROBES",
    "Loss",
    "Point",
    "TimeStep",
    "batch_length",
    "batch_size_for",
    "cross_entropy",
    "directional_derivatives",
    "evaluation_mode",
    "map_tensors",
    "mean_gradient",
    "squared_norms",
    "time_step",
    "to_device",
]
