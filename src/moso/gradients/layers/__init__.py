"""Closed forms, one file per kind of operation: per-sample gradients from what a backward pass computes anyway.

For an operation that is linear in its parameters, a per-sample gradient is made of the operation's input `a` and the
gradient `b` of the loss with respect to its output. A closed form takes both for a whole batch and gives, for each
parameter, the squared norm of every per-sample gradient and the sum of all gradients, without keeping any of them.

A closed form belongs to a function of PyTorch, not to a module: any code that calls the function with a parameter is
covered.
"""

import torch
import torch.nn.functional as F

from moso.gradients.layers import convolution, embedding, linear
from moso.gradients.layers.contraction import bilinear, einsum, matmul
from moso.gradients.layers.elementwise import ELEMENTWISE, expansion
from moso.gradients.layers.folded import folded_convolution
from moso.gradients.layers.normalisation import batch_norm, group_norm, instance_norm, layer_norm, rms_norm

# Imported as modules: importing an operation of the same name would hide its module.
from moso.gradients.layers.operation import Call, Function, Layout, Operation, Place, Rows
from moso.gradients.layers.transposed import transposed_convolution

_T = torch.Tensor
OPERATIONS: dict[Function, Operation] = {
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
