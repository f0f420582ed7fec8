"""LESS's two directions at a time step: the update that Adam would make for one sample alone, and a target's gradient.

    Gamma(z) = m' / ( sqrt(v') + epsilon )
    m' = ( beta1 m_t + (1 - beta1) g_z   ) / (1 - beta1^(t+1))
    v' = ( beta2 v_t + (1 - beta2) g_z^2 ) / (1 - beta2^(t+1))

with the moments `m_t`, `v_t` after update t. Under plain descent `Gamma(z) = g_z`. The similarity is the cosine of
`Gamma(z)` and the target's plain gradient, both after one random projection. `Gamma` is not linear in `g_z`, so no
closed form helps: per-sample gradients are formed, as many at a time as fit 256 MB.

Source: Xia et al., LESS: Selecting Influential Data for Targeted Instruction Tuning, ICML 2024, section 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.data.views import View
from moso.evidence.measure import ParameterFilter, checked, prepared
from moso.evidence.moments import Moments
from moso.evidence.terms import StepTerms
from moso.evidence.trajectory import TrajectoryPoint
from moso.gradients import Loss, Risk, cross_entropy, evaluation_mode, risk_gradient, to_device
from moso.gradients.estimates.projection import Projection
from moso.gradients.estimates.sketch import NUMBERS, projections_of
from moso.gradients.fallback import formed_route
from moso.gradients.losses import batch_length
from moso.gradients.point import Point, Tensors
from moso.gradients.probe import first_samples


@dataclass(frozen=True)
class Similarity:
    """How similarities are computed.

    Attributes:
        numbers: Most numbers per projected gradient; a network with fewer parameters is not projected.
        seed: Seed of the projection.
        batch_size: Samples per batch; None for a size that suits network and device.
        loader_workers: Processes that load batches ahead.
        parameters: Filter by parameter name.
    """

    numbers: int = NUMBERS
    seed: int = 0
    batch_size: int | None = None
    loader_workers: int = 0
    parameters: ParameterFilter | None = None


def adam_directions(gradients: Tensors, moments: Moments) -> Tensors:
    """Return `Gamma` of per-sample gradients ``[samples, *shape]``, by parameter name.

    Example:
        >>> from moso.evidence.moments import AdamRule
        >>> fresh = Moments({"w": AdamRule(0.9, 0.999, 1e-8, 0)}, {"w": torch.zeros(2)}, {"w": torch.zeros(2)})
        >>> adam_directions({"w": torch.tensor([[3.0, -4.0]])}, fresh)["w"].round(decimals=4)  # the first step: signs
        tensor([[ 1., -1.]])
    """
    found: Tensors = {}
    for name, own in gradients.items():
        rule = moments.rules.get(name)
        if rule is None:
            found[name] = own
            continue
        first, second = moments.first[name].to(own), moments.second[name].to(own)
        mean = (rule.beta1 * first + (1 - rule.beta1) * own) / (1 - rule.beta1 ** (rule.count + 1))
        square = (rule.beta2 * second + (1 - rule.beta2) * own.square()) / (1 - rule.beta2 ** (rule.count + 1))
        found[name] = mean / (square.sqrt() + rule.epsilon)
    return found


def similarity_terms(
    model: nn.Module,
    point: TrajectoryPoint,
    view: View,
    positions: NDArray[np.int64],
    risks: Sequence[Risk],
    *,
    loss: Loss = cross_entropy,
    how: Similarity | None = None,
) -> list[StepTerms]:
    """Return the cosine of every sample's `Gamma` with each risk's gradient at one time step, as terms of the step.

    Args:
        model: The network, whose architecture is used with the state of `point`.
        point: The time step, with the optimiser's moments.
        view: The samples.
        positions: Positions of the samples, shape `[samples]`.
        risks: The targets.
        loss: One loss per sample of a batch, shape `[batch]`.
        how: How similarities are computed.

    Returns:
        Terms whose `dot` is the cosine, ``[1, samples]``, one entry per risk.

    Raises:
        TrajectoryIncomplete: The step was recorded without moments.
        SettingsConflict: Parameter groups have different learning rates.
        ValuesNotFinite: A gradient is not finite.
    """
    how = how or Similarity()
    if len(set(point.learning_rates)) > 1:
        raise errors.SettingsConflict(
            f"step {point.step} has several learning rates; 'less' weighs a whole step by one"
        )
    moments = point.moments_for(model)
    at, batches = prepared(
        model, point, view, positions, loss, how.batch_size, how.parameters, how.loader_workers
    )  # fmt: skip
    projections = projections_of(at, how.numbers, how.seed)
    targets = torch.cat([
        projected({name: one[None] for name, one in risk_gradient(at, risk).items()}, projections) for risk in risks
    ])  # fmt: skip
    targets = targets / targets.norm(dim=1, keepdim=True).clamp(min=torch.finfo(targets.dtype).tiny)
    rows = []
    with evaluation_mode(at.model):
        for batch in batches(positions):
            for own in _directions(at, to_device(batch, at.device), moments):
                made = projected(own, projections)
                lengths = made.norm(dim=1, keepdim=True).clamp(min=torch.finfo(made.dtype).tiny)
                rows.append(((made / lengths) @ targets.T).double().cpu())
    cosines = torch.cat(rows).T.numpy()
    rate = point.learning_rates[:1]
    return [
        checked(StepTerms(point.step, rate, one[None], np.zeros_like(one[None]), own_risk=False), positions)
        for one in cosines
    ]


def _directions(point: Point, batch: object, moments: Moments) -> list[Tensors]:
    route = formed_route(point, first_samples(batch))
    found = [adam_directions(gradients, moments) for gradients in route(point, batch)]
    assert sum(len(next(iter(own.values()))) for own in found) == batch_length(batch)
    return found


def projected(gradients: Tensors, projections: dict[str, Projection]) -> torch.Tensor:
    """Project gradients ``[samples, *shape]`` by parameter name to ``[samples, numbers]``."""
    return torch.cat([one.of_gradients(gradients[name]) for name, one in projections.items()], 1)
