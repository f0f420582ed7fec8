"""Closed forms, one file per kind of operation: gradients of single samples from what a backward pass has anyway.

For an operation that is linear in its parameters, the gradient of one sample's loss is made of the operation's input
`a` and the gradient `b` of the loss by its output. A form takes both for a whole batch and gives, for each parameter,
the squared norm of every sample's gradient and the sum of all gradients, without keeping any of them.

A form belongs to a function of PyTorch, not to a module: whatever calls it with a parameter is covered.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

# By their modules: an operation of the same name would hide its module from whoever imports it.
from moso.gradients.layers import convolution, embedding, linear
from moso.gradients.layers.contraction import bilinear, einsum, matmul
from moso.gradients.layers.elementwise import ELEMENTWISE, expansion
from moso.gradients.layers.folded import folded_convolution
from moso.gradients.layers.normalisation import batch_norm, group_norm, instance_norm, layer_norm, rms_norm
from moso.gradients.layers.operation import Call, Layout, Operation, Place, Rows
from moso.gradients.layers.transposed import transposed_convolution

_T = torch.Tensor
OPERATIONS: dict[Callable[..., Any], Operation] = {
    F.linear: linear.linear,
    torch.addmm: linear.addmm,
    **dict.fromkeys((torch.matmul, torch.mm, torch.bmm, _T.matmul, _T.mm, _T.bmm, _T.__matmul__), matmul),
    torch.einsum: einsum,
    F.bilinear: bilinear,
    torch.conv1d: convolution.convolution,
    torch.conv2d: convolution.convolution,
    torch.conv3d: convolution.convolution,
    torch.conv_transpose1d: transposed_convolution,
    torch.conv_transpose2d: transposed_convolution,
    torch.conv_transpose3d: transposed_convolution,
    F.batch_norm: batch_norm,
    F.group_norm: group_norm,
    F.instance_norm: instance_norm,
    F.layer_norm: layer_norm,
    F.rms_norm: rms_norm,
    F.embedding: embedding.embedding,
    F.embedding_bag: embedding.embedding_bag,
    **ELEMENTWISE,
    **dict.fromkeys((_T.expand, _T.expand_as, _T.broadcast_to, torch.broadcast_to), expansion),
}

__all__ = ["OPERATIONS", "Call", "Layout", "Operation", "Place", "Rows", "folded_convolution"]
