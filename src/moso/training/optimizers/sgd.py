"""Stochastic gradient descent with momentum, with the arithmetic of `torch.optim.SGD`.

    g <- g + weight_decay p
    v <- momentum v + g                                (the first v is the first g)
    p <- p - rate v                                    (Nesterov: p - rate (g + momentum v))

Source: Sutskever et al., On the importance of initialization and momentum in deep learning, ICML 2013.
"""

import torch

from moso.training.optimizers.rule import Rule, Settings, SlotLists, TensorList, each, each_

MOMENTUM = "momentum_buffer"


def _update(
    settings: Settings, rate: float, step: int, parameters: TensorList, gradients: TensorList, slots: SlotLists
) -> tuple[TensorList, SlotLists]:
    if settings.weight_decay:
        gradients = each(torch.add, gradients, parameters, alpha=settings.weight_decay)
    if not settings.momentum:
        return each_(torch.add, parameters, gradients, alpha=-rate), {}
    if step == 1:
        momentum: TensorList = [gradient.clone() for gradient in gradients]
    else:
        momentum = each_(torch.add, each_(torch.mul, slots[MOMENTUM], settings.momentum), gradients)
    direction = each(torch.add, gradients, momentum, alpha=settings.momentum) if settings.nesterov else momentum
    return each_(torch.add, parameters, direction, alpha=-rate), {MOMENTUM: momentum}


def _slots(settings: Settings) -> tuple[str, ...]:
    return (MOMENTUM,) if settings.momentum else ()


def _mean(settings: Settings, step: int) -> float:
    return (1 - settings.momentum) / (1 - settings.momentum**step)


RULE = Rule("sgd", "stochastic gradient descent with momentum", _update, _slots, _mean, frozenset({"nesterov"}))
