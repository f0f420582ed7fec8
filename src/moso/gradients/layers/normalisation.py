"""Normalisations, `y = w * x_hat + c`: per-sample gradients are as small as `w`, and are formed.

Batch-norm is in evaluation mode here, so `x_hat` of a sample depends on that sample alone.
"""

import torch

from moso.gradients.layers.operation import Call, Each, Operation


def _by_channel(call: Call, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return input and output gradient, ``[batch, images, channels, ...]``."""
    return call.by_sample(call.a, call.a.ndim - 1), call.by_sample(b, b.ndim - 1)


def _batch_norm(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    """Compute `sum b x_hat = (sum b a - mean sum b) / std` in one pass over `a` and `b`."""
    batch, images, channels = b.shape[:3]
    rows, columns = b.reshape(batch * images * channels, 1, -1), a.reshape(batch * images * channels, -1, 1)
    products = torch.bmm(rows, columns).view(batch, images, channels).sum(1)
    bias = b.reshape(batch, images, channels, -1).sum((1, 3))
    mean, variance = call.given["running_mean"], call.given["running_var"]
    yield "weight", (products - mean * bias) * torch.rsqrt(variance + call.given.get("eps", 1e-5))
    yield "bias", bias


def _by_image(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    """Group-norm and instance-norm: one weight and one bias per channel."""
    normalised = call.again(input=a.flatten(0, 1), weight=None, bias=None).view_as(a)
    shape = *b.shape[:3], -1
    yield "weight", (b * normalised).reshape(shape).sum((1, 3))
    yield "bias", b.reshape(shape).sum((1, 3))


def _trailing(call: Call, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return input and output gradient, ``[batch, positions, *normalized_shape]``."""
    item = len(call.given["normalized_shape"])
    return call.by_sample(call.a, item), call.by_sample(b, item)


def _by_position(call: Call, a: torch.Tensor, b: torch.Tensor) -> Each:
    """Layer-norm and RMS-norm: parameters of the trailing shape."""
    bare = {"weight": None, "bias": None} if "bias" in call.operation.arguments else {"weight": None}
    yield "weight", (b * call.again(input=a, **bare)).sum(1)
    yield "bias", b.sum(1)


batch_norm = Operation(
    ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"),
    _by_channel, _batch_norm,
    holds=lambda given: given.get("running_mean") is not None and not given.get("training", False),
)  # fmt: skip
group_norm = Operation(("input", "num_groups", "weight", "bias", "eps"), _by_channel, _by_image)
instance_norm = Operation(
    ("input", "running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps"),
    _by_channel, _by_image,
    holds=lambda given: given.get("running_mean") is None or not given.get("use_input_stats", True),
)  # fmt: skip
layer_norm = Operation(("input", "normalized_shape", "weight", "bias", "eps"), _trailing, _by_position)
rms_norm = Operation(("input", "normalized_shape", "weight", "eps"), _trailing, _by_position)
