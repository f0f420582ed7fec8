"""One whole update of a recipe as a function: gradient clipping, then the optimiser's rule."""

from collections.abc import Mapping
from types import MappingProxyType

import torch

from moso.training.optimizers.registry import find_rule
from moso.training.optimizers.rule import Settings, TensorList

Tensors = dict[str, torch.Tensor]
Slots = dict[str, Tensors]
NO_FACTORS: Mapping[str, float] = MappingProxyType({})
_CLIP_EPSILON = 1e-6  # as in torch.nn.utils.clip_grad_norm_
_CACHED = 2**16  # elements per group of parameters, so that a group fits the CPU's cache


def descend(
    settings: Settings,
    rate: float,
    counts: Mapping[str, int],
    parameters: Mapping[str, torch.Tensor],
    gradients: Mapping[str, torch.Tensor],
    slots: Mapping[str, Mapping[str, torch.Tensor]],
    *,
    copies: bool = False,
    factors: Mapping[str, float] = NO_FACTORS,
) -> tuple[Tensors, Slots]:
    """Return parameters and slots after one update.

    If gradients are enabled (autograd), no argument changes. Under `torch.no_grad` the update is made in the memory of
    `parameters` and `slots`.

    Args:
        settings: The recipe.
        rate: Learning rate of the update.
        counts: Number of earlier updates per parameter; 0 for a parameter that is not named.
        parameters: At least the parameters that have a gradient, by name.
        gradients: Gradients by name; parameters without one do not move.
        slots: `{slot: {parameter: tensor}}`; a missing tensor is zero.
        copies: Whether the first dimension of every tensor numbers copies of a network, each clipped by its own norm.
        factors: What the rate is multiplied by, per parameter; 1 for a parameter that is not named.

    Returns:
        Parameters and slots of the parameters that have a gradient.

    Example:
        >>> from moso.training.recipe import TrainingRecipe
        >>> plain = TrainingRecipe(epochs=1, batch_size=1, learning_rate=0.1, schedule="constant", momentum=0.0)
        >>> descend(plain, 0.5, {}, {"w": torch.ones(1)}, {"w": torch.ones(1)}, {})
        ({'w': tensor([0.5000])}, {})
    """
    rule = find_rule(settings.optimizer)
    kept = rule.slots(settings)
    clipped = clip(gradients, settings.clip_norm, copies)
    moved: Tensors = {}
    later: Slots = {slot: {} for slot in kept}
    for (count, factor, _), names in _groups(clipped, counts, factors).items():
        given = [parameters[name] for name in names]
        held = {slot: _real([_slot(slots, slot, name, parameters) for name in names]) for slot in kept}
        along = _real([clipped[name] for name in names])
        after, written = rule.update(settings, rate * factor, count + 1, _real(given), along, held)
        moved |= zip(names, _like(given, after), strict=True)
        for slot in kept:
            later[slot] |= zip(names, _like(given, written[slot]), strict=True)
    return moved, later


def clip(gradients: Mapping[str, torch.Tensor], limit: float | None, copies: bool = False) -> Tensors:
    """Scale gradients down to a global norm of at most `limit`, as `clip_grad_norm_` does.

    Args:
        gradients: Gradients by name.
        limit: Largest norm over all gradients; `None` disables clipping.
        copies: Whether the first dimension numbers copies of a network, each clipped by its own norm.

    Example:
        >>> clip({"w": torch.tensor([3.0, 4.0])}, 1.0)
        {'w': tensor([0.6000, 0.8000])}
    """
    if limit is None or not gradients:
        return dict(gradients)
    if not copies:
        norms = torch.stack([torch.linalg.vector_norm(value) for value in gradients.values()])
        factor = (limit / (torch.linalg.vector_norm(norms) + _CLIP_EPSILON)).clamp(max=1.0)
        return {name: value * factor for name, value in gradients.items()}
    norms = torch.stack([torch.linalg.vector_norm(value.flatten(1), dim=1) for value in gradients.values()])
    factor = (limit / (torch.linalg.vector_norm(norms, dim=0) + _CLIP_EPSILON)).clamp(max=1.0)
    return {name: value * factor.view(-1, *[1] * (value.ndim - 1)) for name, value in gradients.items()}


def _groups(
    gradients: Tensors, counts: Mapping[str, int], factors: Mapping[str, float]
) -> dict[tuple[int, float, int], list[str]]:
    """Group the names of parameters that are updated together: of one count, one rate and, on a CPU, few enough."""
    found: dict[tuple[int, float, int], list[str]] = {}
    before = 0
    for name, gradient in gradients.items():
        found.setdefault((counts.get(name, 0), factors.get(name, 1.0), before // _CACHED), []).append(name)
        before += gradient.numel() if gradient.device.type == "cpu" else 0
    return found


def _slot(
    slots: Mapping[str, Mapping[str, torch.Tensor]], slot: str, name: str, parameters: Mapping[str, torch.Tensor]
) -> torch.Tensor:
    found = slots.get(slot, {}).get(name)
    return torch.zeros_like(parameters[name]) if found is None else found


def _real(tensors: TensorList) -> list[torch.Tensor]:
    # Rules are written for real numbers: a complex parameter becomes two of them, as in torch.optim.
    return [torch.view_as_real(one) if one.is_complex() else one for one in tensors]


def _like(given: TensorList, tensors: TensorList) -> list[torch.Tensor]:
    pairs = zip(given, tensors, strict=True)
    return [torch.view_as_complex(one) if before.is_complex() else one for before, one in pairs]
