"""Batch-norm in training mode with its first and second derivative in closed form.

With means `M` over everything but channels, `n` values per channel, `r = (var + eps)^(-1/2)` and `x^ = (x - M[x]) r`:

    y  = w x^ + b
    gx = w r (g - M[g] - x^ M[g x^])        gw = n M[g x^]        gb = n M[g]

The second derivative is the backward pass of the second line. With the projection `P[h] = h - M[h] - x^ M[h x^]`, and
for `v`, `vw`, `vb` along `gx`, `gw`, `gb`:

    to g:  w r P[v] + vw x^ + vb
    to w:  n r M[P[v] g]
    to x:  r (- w r M[g x^] P[v] + (vw - w r M[v x^]) P[g]) - w r^2 M[P[v] g] x^

Projecting before multiplying avoids cancellation, because `v` is mostly mean. Autograd would compute the same with
twice as many passes over the activations. In float32 PyTorch's own second derivative is wrong in the second digit, this
one in the sixth (a small ResNet, channels-last; largest error of a tensor relative to its largest entry).
"""

from typing import Any

import torch

Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Normalise(torch.autograd.Function):
    """Returns `y`, and the batch's mean and (biased) variance, from `x`, `weight`, `bias` and `eps`."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> Three:
        """Normalise a batch."""
        ctx.set_materialize_grads(False)
        mean = x.mean(_others(x))
        centred = x - _wide(mean, x)
        var = _product(centred, centred)
        ctx.save_for_backward(x, weight, mean, var)
        ctx.eps = eps
        return torch.addcmul(_wide(bias, x), centred, _wide(weight * torch.rsqrt(var + eps), x)), mean, var

    @staticmethod
    def backward(
        ctx: Any, g: torch.Tensor | None, along_mean: torch.Tensor | None, along_var: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None, None]:
        """Compute the first derivative, which is itself differentiable."""
        x, weight, mean, var = ctx.saved_tensors
        gx = gw = gb = None
        if g is not None:
            gx, gw, gb = _Back.apply(g, x, weight, mean, torch.rsqrt(var + ctx.eps))  # type: ignore[no-untyped-call]
        count = x.numel() // x.shape[1]
        if along_mean is not None:
            part = _wide(along_mean / count, x).expand_as(x)
            gx = part if gx is None else gx + part
        if along_var is not None:
            part = (x - _wide(mean, x)) * _wide(along_var * (2 / count), x)
            gx = part if gx is None else gx + part
        return gx, gw, gb, None


class _Back(torch.autograd.Function):
    """The backward pass of `Normalise` as a function of `g`, `x` and the weight; `mean` and `r` follow from `x`."""

    @staticmethod
    def forward(
        ctx: Any, g: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, r: torch.Tensor
    ) -> Three:
        normal, count, scale = (x - _wide(mean, x)) * _wide(r, x), x.numel() // x.shape[1], weight * r
        projected, mean_g, a = _projected(g, normal)
        ctx.save_for_backward(g, x, weight, mean, r)
        return projected.mul_(_wide(scale, x)), count * a, count * mean_g

    @staticmethod
    def backward(
        ctx: Any, v: torch.Tensor, vw: torch.Tensor, vb: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None, None]:
        g, x, weight, mean, r = ctx.saved_tensors
        normal, count, scale = (x - _wide(mean, x)) * _wide(r, x), x.numel() // x.shape[1], weight * r
        (of_v, _, c), (of_g, _, a) = _projected(v, normal), _projected(g, normal)
        q = _product(of_v, g)
        to_g = torch.addcmul(_wide(vb, x), of_v, _wide(scale, x)).addcmul_(normal, _wide(vw, x))
        to_x = of_v.mul_(_wide(-scale * r * a, x)).addcmul_(of_g, _wide(r * (vw - scale * c), x))
        return to_g, to_x.addcmul_(normal, _wide(-scale * r * q, x)), count * r * q, None, None


def _projected(h: torch.Tensor, normal: torch.Tensor) -> Three:
    """Return `P[h]`, `M[h]` and `M[h x^]`."""
    mean = h.mean(_others(h))
    centred = h - _wide(mean, h)
    along = _product(centred, normal)
    return centred.addcmul_(normal, _wide(-along, h)), mean, along


def _others(x: torch.Tensor) -> list[int]:
    return [dimension for dimension in range(x.ndim) if dimension != 1]


def _wide(channels: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return channels.view(1, -1, *[1] * (x.ndim - 2))


def _product(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the mean of a product per channel."""
    return (one * other).mean(_others(one))
