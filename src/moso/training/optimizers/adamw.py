"""AdamW, with the arithmetic of `torch.optim.AdamW`: Adam with decoupled weight decay.

    p <- (1 - rate weight_decay) p, then Adam's step

Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019.
"""

import torch

from moso.training.optimizers.adam import OWN_SETTINGS, adapted, mean_factor, moments
from moso.training.optimizers.rule import Rule, Settings, SlotLists, TensorList, each_


def _update(
    settings: Settings, rate: float, step: int, parameters: TensorList, gradients: TensorList, slots: SlotLists
) -> tuple[TensorList, SlotLists]:
    if settings.weight_decay:
        parameters = each_(torch.mul, parameters, 1 - rate * settings.weight_decay)
    return adapted(settings, rate, step, parameters, gradients, slots)


RULE = Rule("adamw", "Adam with decoupled weight decay", _update, moments, mean_factor, OWN_SETTINGS, counts=True)
