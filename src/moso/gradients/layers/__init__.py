"""Closed forms, one file a kind of operation: gradients of single samples from what a backward pass has anyway.

For an operation that is linear in its parameters, the gradient of one sample's loss is made of the operation's input
`a` and the gradient `b` of the loss by its output. A form takes both for a whole batch and gives, for each parameter,
the squared norm of every sample's gradient and the sum of all gradients, without keeping any of them.

A form belongs to a function of `torch.nn.functional`, not to a module: whatever calls it with a parameter is covered.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from moso.gradients.layers.convolution import convolution
from moso.gradients.layers.embedding import embedding
from moso.gradients.layers.folded import folded_convolution
from moso.gradients.layers.linear import linear
from moso.gradients.layers.normalisation import batch_norm, group_norm, instance_norm, layer_norm, rms_norm
from moso.gradients.layers.parts import Call, Layout, Operation, Place, Rows

OPERATIONS: dict[Callable[..., Any], Operation] = {
    F.linear: linear,
    torch.conv1d: convolution,
    torch.conv2d: convolution,
    torch.conv3d: convolution,
    F.batch_norm: batch_norm,
    F.group_norm: group_norm,
    F.instance_norm: instance_norm,
    F.layer_norm: layer_norm,
    F.rms_norm: rms_norm,
    F.embedding: embedding,
}

__all__ = ["OPERATIONS", "Call", "Layout", "Operation", "Place", "Rows", "folded_convolution"]
