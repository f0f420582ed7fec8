"""The gradient engine: it knows networks and losses, and nothing of methods or files."""

from moso.gradients.engine import Point, evaluation_mode, mean_gradient, sample_terms
from moso.gradients.losses import Loss, batch_length, cross_entropy, map_tensors, to_device

__all__ = [
    "Loss",
    "Point",
    "batch_length",
    "cross_entropy",
    "evaluation_mode",
    "map_tensors",
    "mean_gradient",
    "sample_terms",
    "to_device",
]
