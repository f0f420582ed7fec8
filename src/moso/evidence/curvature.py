"""The curvature of the mean loss in the last layer's weights, and its inverse, from two factors a sample.

With `a` what comes into the layer (a 1 behind it for the bias) and `p` the probabilities it leads to, the Hessian of
the mean cross-entropy by the weights `W: [out, in]` is, exactly and never negative,

    H = mean_z (diag(p_z) - p_z p_z^T) x a_z a_z^T

where x is the Kronecker product. Losses other than cross-entropy take the empirical Fisher matrix in its place,
`mean_z b_z b_z^T x a_z a_z^T` with `b` the gradient by the layer's outputs. A share of the mean eigenvalue is added, so
that directions in which the loss is flat do not swallow the others, and the weight decay, which is part of what
training minimised.

A layer of `out in` weights has a matrix of (out in)^2 numbers, which is formed and factorised up to some size. Of a
larger one the product of two small matrices stands for it, `mean(diag(p) - p p^T) x mean(a a^T)`, as if the two were
independent of each other (Martens & Grosse, Optimizing Neural Networks with Kronecker-factored Approximate Curvature,
ICML 2015).
"""

from dataclasses import dataclass

import torch

from moso import errors
from moso.gradients import Factored


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
        >>> Curvature.of(factors, exact=True, damping=0, weight_decay=1).matrix()
        tensor([[ 1.2500, -0.2500],
                [-0.2500,  1.2500]])
        """
        a = with_one(factors)
        # p - onehot(y) has one negative number, at the label.
        p = factors.b + torch.nn.functional.one_hot(factors.b.argmin(1), factors.b.shape[1])
        d, q, sign = (p, p, -1.0) if exact else (torch.zeros_like(factors.b), factors.b, 1.0)
        trace = ((d.sum(1) + sign * q.square().sum(1)) * a.square().sum(1)).mean()
        mean = float(trace) / (a.shape[1] * d.shape[1])
        added = damping * mean + weight_decay
        if not added > 0:
            found = f"damping {damping:g} of a mean curvature of {mean:.3g} and weight decay {weight_decay:g}"
            raise errors.SettingInvalid(
                f"{found} leave directions in which the loss is flat; give one of the two above 0"
            )
        return cls(a, d, q, sign, added)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the layer's weights with the bias as a last column, `(out, in)`."""
        return self.d.shape[1], self.a.shape[1]

    def matrix(self) -> torch.Tensor:
        """`H + damping`, `[out in, out in]`."""
        out, width = self.shape
        found = self.a.new_zeros(out, width, out, width)
        for row in range(out):
            # Between this output and itself and all that come behind it; the others are known by symmetry.
            weights = self.sign * self.q[:, row : row + 1] * self.q[:, row:]
            weights[:, 0] += self.d[:, row]
            weighted = (weights[:, :, None] * self.a[:, None]).flatten(1)
            blocks = (self.a.T @ weighted).view(width, out - row, width) / len(self.a)
            found[row, :, row:] = blocks
            found[row:, :, row] = blocks.permute(1, 2, 0)
        matrix = found.view(out * width, out * width)
        matrix.diagonal().add_(self.damping)
        return matrix

    def solve(self, v: torch.Tensor) -> torch.Tensor:
        """`(H + damping)^-1 v` of directions `[k, out, in]`."""
        factor = torch.linalg.cholesky(self.matrix())
        return torch.cholesky_solve(v.flatten(1).T, factor).T.reshape(v.shape)

    def sides(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The inverses `[out, out]` and `[in, in]` of two matrices whose product is near to the curvature."""
        left = (torch.diag(self.d.mean(0)) + self.sign * self.q.T @ self.q / len(self.q)).double()
        right = (self.a.T @ self.a / len(self.a)).double()
        # The damping is shared between the two in proportion to their mean eigenvalues, as in the source.
        scales = [float(side.trace()) / len(side) for side in (left, right)]
        if min(scales) <= 0:
            return torch.eye(len(left)).to(self.a), torch.eye(len(right)).to(self.a) / self.damping
        shares = [(self.damping * own / other) ** 0.5 for own, other in (scales, scales[::-1])]
        for side, share in zip((left, right), shares, strict=True):
            side.diagonal().add_(share)
        return torch.linalg.inv(left).to(self.a), torch.linalg.inv(right).to(self.a)


def with_one(factors: Factored) -> torch.Tensor:
    """`a`, with a column of ones behind it where the layer has a bias."""
    return torch.cat([factors.a, torch.ones_like(factors.a[:, :1])], 1) if factors.bias else factors.a
