"""Adam, with the arithmetic of `torch.optim.Adam`: weight decay is added to the gradient and rescaled with it.

    g <- g + weight_decay p
    m <- beta1 m + (1 - beta1) g                       (beta1 is the recipe's momentum)
    v <- beta2 v + (1 - beta2) g^2
    p <- p - rate  m / (1 - beta1^t)  /  ( sqrt(v / (1 - beta2^t)) + epsilon )

Source: Kingma and Ba, Adam: A Method for Stochastic Optimization, ICLR 2015.
"""

import torch

from moso.training.optimizers.rule import Rule, Settings, SlotLists, TensorList, each, each_

FIRST, SECOND = "exp_avg", "exp_avg_sq"
OWN_SETTINGS = frozenset({"beta2", "epsilon"})


def adapted(
    settings: Settings, rate: float, step: int, parameters: TensorList, gradients: TensorList, slots: SlotLists
) -> tuple[TensorList, SlotLists]:
    """Return the parameters and both moments after Adam's step without weight decay."""
    beta1, beta2 = settings.momentum, settings.beta2
    first = each_(torch.lerp, slots[FIRST], gradients, 1 - beta1)
    second = each_(torch.addcmul, each_(torch.mul, slots[SECOND], beta2), gradients, gradients, value=1 - beta2)
    # The derivative of the square root is infinite at zero, so values are clamped to the smallest normal number; after
    # epsilon is added, the bits are the same.
    roots = each_(torch.sqrt, each(torch.clamp_min, second, torch.finfo(second[0].dtype).tiny))
    scales = each_(torch.add, each_(torch.div, roots, (1 - beta2**step) ** 0.5), settings.epsilon)
    moved = each_(torch.addcdiv, parameters, first, scales, value=-(rate / (1 - beta1**step)))
    return moved, {FIRST: first, SECOND: second}


def moments(settings: Settings) -> tuple[str, ...]:
    """Return the slots of both moments; with beta1 = 0 the first moment is the gradient itself."""
    return (FIRST, SECOND)


def mean_factor(settings: Settings, step: int) -> float:
    """Return Adam's bias correction of the first moment."""
    return 1 / (1 - settings.momentum**step)


def _update(
    settings: Settings, rate: float, step: int, parameters: TensorList, gradients: TensorList, slots: SlotLists
) -> tuple[TensorList, SlotLists]:
    if settings.weight_decay:
        gradients = each(torch.add, gradients, parameters, alpha=settings.weight_decay)
    return adapted(settings, rate, step, parameters, gradients, slots)


RULE = Rule("adam", "Adam, weight decay in the gradient", _update, moments, mean_factor, OWN_SETTINGS, counts=True)
