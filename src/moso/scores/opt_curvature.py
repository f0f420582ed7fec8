"""The curvature of the mean loss in the last layer's weights, and its inverse, from two factors a sample.

With `a` what comes into the layer (a 1 behind it for the bias) and `p` the probabilities it leads to, the Hessian of
the mean cross-entropy by the weights `W: [out, in]` is, exactly and never negative,

    H v = mean_z (diag(p_z) - p_z p_z^T) (v a_z) a_z^T

Losses other than cross-entropy take the empirical Fisher matrix in its place, `mean_z b_z (b_z . v a_z) a_z^T` with `b`
the gradient by the layer's outputs. A share of the mean eigenvalue is added, so that directions in which the loss is
flat do not swallow the others, and the weight decay, which is part of what training minimised.

`solve` finds `(H + damping)^-1 v` of many `v` at once by conjugate gradients. Their preconditioner is the inverse of
the product of two small matrices, `mean(diag(p) - p p^T) x mean(a a^T)`, which for a layer too large for anything else
stands for the curvature itself.
"""

import logging
from dataclasses import dataclass
from functools import cached_property

import torch

from moso.errors import MosoError
from moso.gradients import Factored

ROUNDS = 100  # of conjugate gradients, at most
RESIDUAL = 1e-3  # at which they stop, in lengths of the right-hand side
# Numbers that exist at one time while directions are multiplied by the curvature.
_CHUNK = 1 << 24
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Curvature:
    """`H + damping` of a last layer: `a: [n, in]`, and the curvature by its outputs, `diag(d_z) + sign q_z q_z^T`."""

    a: torch.Tensor
    d: torch.Tensor
    q: torch.Tensor
    sign: float
    damping: float

    @classmethod
    def of(cls, factors: Factored, *, exact: bool, damping: float, weight_decay: float = 0.0) -> "Curvature":
        """The curvature over these samples; `exact` where the loss is cross-entropy.

        >>> factors = Factored(torch.ones(1, 1), torch.tensor([[-0.5, 0.5]]), bias=False)
        >>> Curvature.of(factors, exact=True, damping=0, weight_decay=1).times(torch.tensor([[[1.0], [0.0]]])).flatten()
        tensor([ 1.2500, -0.2500])
        """
        a = with_one(factors)
        # p - onehot(y) has one negative number, at the label.
        label = torch.nn.functional.one_hot(factors.b.argmin(1), factors.b.shape[1])
        p = factors.b + label
        d, q, sign = (p, p, -1.0) if exact else (torch.zeros_like(factors.b), factors.b, 1.0)
        trace = ((d.sum(1) + sign * q.square().sum(1)) * a.square().sum(1)).mean()
        mean = float(trace) / (a.shape[1] * d.shape[1])
        added = damping * mean + weight_decay
        if not added > 0:
            found = f"damping {damping:g} of a mean curvature of {mean:.3g} and weight decay {weight_decay:g}"
            raise MosoError(
                f"{found} leave directions in which the loss is flat; give a damping or a weight decay above 0"
            )
        return cls(a, d, q, sign, added)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the layer's weights with the bias as a last column, `(out, in)`."""
        return self.d.shape[1], self.a.shape[1]

    def times(self, v: torch.Tensor) -> torch.Tensor:
        """`(H + damping) v` of directions `[k, out, in]`."""
        out, width = self.shape
        result = self.damping * v
        rows = max(1, _CHUNK // (len(v) * out))
        for start in range(0, len(self.a), rows):
            part = slice(start, start + rows)
            a, d, q = self.a[part], self.d[part].T, self.q[part].T
            moved = (v.reshape(-1, width) @ a.T).view(len(v), out, -1)
            moved = d * moved + self.sign * q * (q * moved).sum(1, keepdim=True)
            result += (moved.reshape(-1, moved.shape[2]) @ a).view_as(v) / len(self.a)
        return result

    @cached_property
    def sides(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The inverses `[out, out]` and `[in, in]` of two matrices whose product is near to the curvature."""
        left = (torch.diag(self.d.mean(0)) + self.sign * self.q.T @ self.q / len(self.q)).double()
        right = (self.a.T @ self.a / len(self.a)).double()
        # The damping is shared between the two in proportion to their mean eigenvalues (Martens & Grosse, 2015).
        scales = [float(side.trace()) / len(side) for side in (left, right)]
        if min(scales) <= 0:
            return torch.eye(len(left)).to(self.a), torch.eye(len(right)).to(self.a) / self.damping
        shares = [(self.damping * own / other) ** 0.5 for own, other in (scales, scales[::-1])]
        found = [
            torch.linalg.inv(side + share * torch.eye(len(side)).to(side))
            for side, share in zip((left, right), shares, strict=True)
        ]
        return found[0].to(self.a), found[1].to(self.a)

    def nearly_solve(self, v: torch.Tensor) -> torch.Tensor:
        """`v` times the inverse of the product of the two sides, `[k, out, in]`."""
        left, right = self.sides
        return left @ v @ right

    def solve(self, v: torch.Tensor) -> torch.Tensor:
        """`(H + damping)^-1 v` of directions `[k, out, in]`, each to a residual of `RESIDUAL` times its length."""
        x = torch.zeros_like(v)
        residual = v.clone()
        towards = self.nearly_solve(residual)
        direction, descent = towards.clone(), _dot(residual, towards)
        goal = RESIDUAL**2 * _dot(v, v)
        for _ in range(ROUNDS):
            curved = self.times(direction)
            # A direction that has arrived, or was nothing, goes no further.
            step = torch.where(_dot(residual, residual) > goal, descent / _dot(direction, curved), 0.0)
            x += step * direction
            residual -= step * curved
            if bool((_dot(residual, residual) <= goal).all()):
                break
            towards = self.nearly_solve(residual)
            before, descent = descent, _dot(residual, towards)
            direction = towards + torch.where(before > 0, descent / before, 0.0) * direction
        else:
            left = float((_dot(residual, residual) / goal.clamp(min=torch.finfo(v.dtype).tiny)).max()) ** 0.5 * RESIDUAL
            _log.warning("influences are solved to %.1g of their length, not to %g; more damping helps", left, RESIDUAL)
        return x


def with_one(factors: Factored) -> torch.Tensor:
    """`a`, with a column of ones behind it where the layer has a bias."""
    return torch.cat([factors.a, torch.ones_like(factors.a[:, :1])], 1) if factors.bias else factors.a


def _dot(u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (u * v).sum((1, 2), keepdim=True)
