"""The optimiser's part of an update as a function: from parameters, gradients and slots to the next ones.

The arithmetic is that of `torch.optim.SGD`, `torch.optim.AdamW` and `clip_grad_norm_`, without changing anything in
place, so that autograd can follow it.
"""

import torch

from moso.adjoint.state import Slots
from moso.gradients.point import Tensors
from moso.training.recipe import TrainingRecipe

_CLIP_EPS = 1e-6  # clip_grad_norm_'s
_BETA2, _ADAM_EPS = 0.999, 1e-8  # AdamW's in moso.training.loop


def descend(
    recipe: TrainingRecipe, rate: float, step: int, trained: Tensors, gradients: Tensors, slots: Slots
) -> tuple[Tensors, Slots]:
    """The parameters and slots after update `step`; all three are given for the parameters that have gradients.

    >>> plain = TrainingRecipe(epochs=1, batch_size=1, learning_rate=0.1, schedule="constant", momentum=0.0)
    >>> descend(plain, 0.5, 1, {"w": torch.ones(1)}, {"w": torch.ones(1)}, {})
    ({'w': tensor([0.5000])}, {})
    """
    clipped = _clipped(gradients, recipe.clip_norm)
    if recipe.optimizer == "adamw":
        return _adamw(recipe, rate, step, trained, clipped, slots)
    return _sgd(recipe, rate, trained, clipped, slots)


def _clipped(gradients: Tensors, limit: float | None) -> Tensors:
    if limit is None or not gradients:
        return gradients
    norms = [torch.linalg.vector_norm(value) for value in gradients.values()]
    factor = (limit / (torch.linalg.vector_norm(torch.stack(norms)) + _CLIP_EPS)).clamp(max=1.0)
    return {name: value * factor for name, value in gradients.items()}


def _sgd(
    recipe: TrainingRecipe, rate: float, trained: Tensors, gradients: Tensors, slots: Slots
) -> tuple[Tensors, Slots]:
    after, momentum = {}, {}
    for name, gradient in gradients.items():
        if recipe.weight_decay:
            gradient = gradient + recipe.weight_decay * trained[name]
        if recipe.momentum:
            momentum[name] = recipe.momentum * slots["momentum_buffer"][name] + gradient
            gradient = gradient + recipe.momentum * momentum[name] if recipe.nesterov else momentum[name]
        after[name] = trained[name] - rate * gradient
    return after, {"momentum_buffer": momentum} if recipe.momentum else {}


def _adamw(
    recipe: TrainingRecipe, rate: float, step: int, trained: Tensors, gradients: Tensors, slots: Slots
) -> tuple[Tensors, Slots]:
    after, first, second = {}, {}, {}
    for name, gradient in gradients.items():
        first[name] = torch.lerp(slots["exp_avg"][name], gradient, 1 - recipe.momentum)
        second[name] = _BETA2 * slots["exp_avg_sq"][name] + (1 - _BETA2) * gradient.square()
        # A parameter that never had a gradient: its root has no derivative, and moves nothing.
        moved = second[name] > 0
        root = torch.where(moved, second[name], 1.0).sqrt() * moved
        scale = root / (1 - _BETA2**step) ** 0.5 + _ADAM_EPS
        kept = trained[name] * (1 - rate * recipe.weight_decay)
        after[name] = kept - rate / (1 - recipe.momentum**step) * first[name] / scale
    return after, {"exp_avg": first, "exp_avg_sq": second}
