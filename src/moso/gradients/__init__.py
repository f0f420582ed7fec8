"""The gradient engine: it knows networks, layers and losses, but no methods and no files."""

from moso.gradients.engine import (
    TimeStep,
    derivatives_along,
    directional_derivatives,
    gradient_sums,
    mean_of,
    squared_norms,
    time_step,
)
from moso.gradients.estimates.last_layer import Factored, last_layer_gradients, last_layer_time_step
from moso.gradients.estimates.mean import mean_gradient
from moso.gradients.estimates.sketch import sketched_time_step, sketches
from moso.gradients.estimates.subsampled import subsampled_time_step
from moso.gradients.estimates.training_step import TrainingStepProducts
from moso.gradients.fitting import batch_size_for
from moso.gradients.identities import without_identities
from moso.gradients.losses import Collated, Loss, batch_length, is_sliceable, map_tensors, to_device
from moso.gradients.point import Point, evaluation_mode
from moso.gradients.probe import PROBES
from moso.gradients.risk import Risk, RiskFunction, SampleRisk, class_weights, risk_gradient
from moso.quiet import prepare_forward_mode
from moso.tasks import cross_entropy

prepare_forward_mode()

__all__ = [
    "PROBES",
    "Collated",
    "Factored",
    "Loss",
    "Point",
    "Risk",
    "RiskFunction",
    "SampleRisk",
    "TimeStep",
    "TrainingStepProducts",
    "batch_length",
    "batch_size_for",
    "class_weights",
    "cross_entropy",
    "derivatives_along",
    "directional_derivatives",
    "evaluation_mode",
    "gradient_sums",
    "is_sliceable",
    "last_layer_gradients",
    "last_layer_time_step",
    "map_tensors",
    "mean_gradient",
    "mean_of",
    "risk_gradient",
    "sketched_time_step",
    "sketches",
    "squared_norms",
    "subsampled_time_step",
    "time_step",
    "to_device",
    "without_identities",
]
