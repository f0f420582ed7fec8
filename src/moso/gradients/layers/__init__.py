"""Closed forms, one file a kind of layer: gradients of single samples from what a backward pass has anyway.

For a layer that is linear in its parameters, the gradient of one sample's loss is made of the layer's input `a` and the
gradient `b` of the loss by its output. A form takes both for a whole batch and yields, for each of the layer's own
parameters, the squared norm of every sample's gradient and the sum of all gradients, without keeping any of them.

A form belongs to a `forward` function, not to a class: a subclass that computes something else does not inherit it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from moso.gradients.layers.convolution import convolution
from moso.gradients.layers.embedding import embedding
from moso.gradients.layers.linear import linear
from moso.gradients.layers.normalisation import batch_norm, channel_norm, trailing_norm
from moso.gradients.layers.parts import Buffers, Parts

# (layer, input, output gradient, the layer's buffers at that moment); the layer itself lends only its settings
Form = Callable[[Any, torch.Tensor, torch.Tensor, Buffers], Parts]

_FORMS: dict[Any, Form] = {
    nn.Linear.forward: linear,
    nn.Conv1d.forward: convolution,
    nn.Conv2d.forward: convolution,
    nn.Conv3d.forward: convolution,
    _BatchNorm.forward: batch_norm,
    _InstanceNorm.forward: channel_norm,
    nn.GroupNorm.forward: channel_norm,
    nn.LayerNorm.forward: trailing_norm,
    nn.RMSNorm.forward: trailing_norm,
    nn.Embedding.forward: embedding,
}


def form_of(module: nn.Module) -> Form | None:
    """The closed form of a layer, if it has one.

    >>> form_of(nn.Linear(2, 2)) is linear, form_of(nn.Bilinear(2, 2, 2)) is None
    (True, True)
    """
    if isinstance(module, nn.Embedding) and (module.max_norm is not None or module.scale_grad_by_freq or module.sparse):
        return None
    return _FORMS.get(type(module).forward)


__all__ = ["Form", "form_of"]
