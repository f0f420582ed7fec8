"""Curvature of the mean loss in the last layer's weights, and its inverse, from two factors per sample.

With `a` the input of the layer (a 1 appended for the bias) and `p` the softmax of its outputs, the Hessian of the mean
cross-entropy with respect to the weights `W: [out, in]` is exactly the positive semidefinite matrix

    H = mean_z (diag(p_z) - p_z p_z^T) x a_z a_z^T

where x is the Kronecker product. Losses other than cross-entropy use the empirical Fisher matrix instead,
`mean_z b_z b_z^T x a_z a_z^T` with `b` the gradient with respect to the layer's outputs. Two terms are added to the
diagonal: damping, a share of the mean eigenvalue, so that directions in which the loss is flat do not dominate the
inverse; and the weight decay, which is part of the objective that training minimised.

A layer of `out in` weights has a Hessian of (out in)^2 numbers, which is formed and factorised up to a size limit.
Above the limit it is approximated by a Kronecker product of two small matrices, `mean(diag(p) - p p^T) x mean(a a^T)`,
as if the two factors were independent (K-FAC: Martens & Grosse, Optimizing Neural Networks with Kronecker-factored
Approximate Curvature, ICML 2015).
"""

from dataclasses import dataclass

import torch

from moso import errors
from moso.gradients import Factored


@dataclass(frozen=True)
class Curvature:
    """Damped Hessian `H + damping` of a last layer.

    Attributes:
        a: Inputs of the layer, shape `[n, in]`.
        d: Diagonal part of the curvature with respect to the outputs, `diag(d_z) + sign q_z q_z^T`, shape `[n, out]`.
        q: Rank-one part, shape `[n, out]`.
        sign: Sign of the rank-one part.
        damping: What is added to the diagonal of `H`.
    """

    a: torch.Tensor
    d: torch.Tensor
    q: torch.Tensor
    sign: float
    damping: float

    @classmethod
    def of(cls, factors: Factored, *, exact: bool, damping: float, weight_decay: float = 0.0) -> "Curvature":
        """Build the curvature over the samples of `factors`.

        Args:
            factors: Inputs and output gradients of the layer, one row per sample.
            exact: Whether the loss is cross-entropy, so that the Hessian is known exactly.
            damping: Share of the mean eigenvalue that is added to the diagonal.
            weight_decay: Weight decay of the training, added to the diagonal.

        Raises:
            SettingInvalid: `damping` and `weight_decay` together add nothing, so the matrix may be singular.

        Example:
            >>> factors = Factored(torch.ones(1, 1), torch.tensor([[-0.5, 0.5]]), bias=False)
            >>> Curvature.of(factors, exact=True, damping=0, weight_decay=1).matrix()
            tensor([[ 1.2500, -0.2500],
                    [-0.2500,  1.2500]])
        """
        a = with_one(factors)
        # The gradient p - onehot(y) has one negative entry, at the label.
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
        """Shape `(out, in)` of the layer's weights, with the bias as a last column."""
        return self.d.shape[1], self.a.shape[1]

    def matrix(self) -> torch.Tensor:
        """Return `H + damping`, shape `[out in, out in]`."""
        out, width = self.shape
        found = self.a.new_zeros(out, width, out, width)
        for row in range(out):
            # Blocks of this output with itself and all later outputs; the other blocks follow by symmetry.
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
        """Return `(H + damping)^-1 v` for directions `v` of shape `[k, out, in]`."""
        factor = torch.linalg.cholesky(self.matrix())
        return torch.cholesky_solve(v.flatten(1).T, factor).T.reshape(v.shape)

    def sides(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the inverses, `[out, out]` and `[in, in]`, of the curvature's two approximate Kronecker factors."""
        left = (torch.diag(self.d.mean(0)) + self.sign * self.q.T @ self.q / len(self.q)).double()
        right = (self.a.T @ self.a / len(self.a)).double()
        # The damping is split between the two factors in proportion to their mean eigenvalues, as in the paper.
        scales = [float(side.trace()) / len(side) for side in (left, right)]
        if min(scales) <= 0:
            return torch.eye(len(left)).to(self.a), torch.eye(len(right)).to(self.a) / self.damping
        shares = [(self.damping * own / other) ** 0.5 for own, other in (scales, scales[::-1])]
        for side, share in zip((left, right), shares, strict=True):
            side.diagonal().add_(share)
        return torch.linalg.inv(left).to(self.a), torch.linalg.inv(right).to(self.a)


def with_one(factors: Factored) -> torch.Tensor:
    """Return the inputs `a`, with a column of ones appended if the layer has a bias."""
    return torch.cat([factors.a, torch.ones_like(factors.a[:, :1])], 1) if factors.bias else factors.a
