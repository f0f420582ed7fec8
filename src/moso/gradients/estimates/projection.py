"""Random projections of a parameter's gradient that never need the gradient itself.

A gradient is a matrix with outputs as rows and inputs as columns (for a convolution, channels at each offset of its
kernel). It is multiplied by random signs from the left and from the right,

    s = L g R^T        E[L^T L] = 1, E[R^T R] = 1, so that E[s . s'] = g . g'

and since `g = sum_t b_t a_t^T`, that is `sum_t (L b_t) (R a_t)^T`. Each row of `R` belongs to one offset of the kernel:
a sum of the channels with random signs, shifted. The outputs matter most and cost least, so all of them are kept as
long as they fit. A gradient that is small enough is not projected at all.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
import torch

from moso.randomness import generator

# Least number of rows of `R` for a large gradient, if there is room; and most rows for a convolution, where more would
# cost more than they add.
COLUMNS, MOST_SHIFTS = 4, 8


@dataclass(frozen=True)
class Projection:
    """Maps the gradient of one parameter to `size` numbers.

    Attributes:
        shape: Shape of the parameter.
        size: Number of numbers.
        left: `L`, shape ``[k, rows]``; None if all rows are kept.
        right: `R` without the shifts, shape ``[j, channels]``; None if all columns are kept.
        shifts: One-hot offsets of the kernel, one per row of `right`, shape ``[j, kernel]``; None if all columns are
            kept.
    """

    shape: tuple[int, ...]
    size: int
    left: torch.Tensor | None = None
    right: torch.Tensor | None = None
    shifts: torch.Tensor | None = None

    @classmethod
    def draw(cls, like: torch.Tensor, numbers: int, seed: int, name: str) -> "Projection":
        """Draw the projection of a parameter from the random stream (seed, name).

        Args:
            like: The parameter.
            numbers: Largest size of the projection.
            seed: Seed of the random signs.
            name: Name of the parameter.

        Example:
            >>> projection = Projection.draw(torch.zeros(8, 3, 5, 5), 40, seed=0, name="convolution.weight")
            >>> projection.size, projection.left is None, projection.right.shape
            (40, True, torch.Size([5, 3]))
        """
        shape = tuple(like.shape)
        rows, columns = (shape[0], prod(shape[1:])) if shape else (1, 1)
        if rows * columns <= numbers:
            return cls(shape, rows * columns)
        wanted = min(COLUMNS, columns, numbers)
        k = min(rows, numbers // wanted)
        kernel = prod(shape[2:])
        j = min(columns, numbers // k, MOST_SHIFTS if kernel > 1 else columns)
        left = None if k == rows else _signs(k, rows, seed, name, "left") / k**0.5
        if j == columns:
            return cls(shape, k * j, None if left is None else left.to(like))
        right = _signs(j, shape[1], seed, name, "right") * (kernel / j) ** 0.5
        # Random permutations of all offsets, one after the other, so that each offset occurs about equally often.
        order = generator(seed, "sketch", name, "offsets")
        offsets = np.concatenate([order.permutation(kernel) for _ in range(-(-j // kernel))])[:j]
        shifts = torch.from_numpy(np.eye(kernel)[offsets])
        return cls(shape, k * j, None if left is None else left.to(like), right.to(like), shifts.to(like))

    def of_gradients(self, gradients: torch.Tensor) -> torch.Tensor:
        """Project gradients ``[samples, *shape]`` to ``[samples, size]``."""
        rows = self.shape[0] if self.shape else 1
        matrix = gradients.reshape(len(gradients), rows, -1)
        if self.right is not None and self.shifts is not None:
            apart = gradients.reshape(len(gradients), rows, self.right.shape[1], -1)
            matrix = torch.einsum("nrck,jc,jk->nrj", apart, self.right, self.shifts)
        return (matrix if self.left is None else self.left @ matrix).flatten(1)

    def rows_of(self, b: torch.Tensor, rows: tuple[int, int] | None) -> torch.Tensor:
        """Compute `L b`, ``[samples, positions, k]``, from output gradients ``[samples, positions, rows]``.

        Args:
            b: The output gradients.
            rows: The rows of the parameter that `b` belongs to; the other rows are zero. None for all rows.
        """
        if rows is None:
            return b if self.left is None else b @ self.left.T
        if self.left is not None:
            return b @ self.left[:, slice(*rows)].T
        whole = b.new_zeros(*b.shape[:2], self.shape[0])
        whole[..., slice(*rows)] = b
        return whole

    def columns_of(self, a: torch.Tensor) -> torch.Tensor:
        """Compute `R a`, ``[samples, positions, j]``, from inputs ``[samples, positions, columns]``.

        Not for convolutions, whose columns are shifted as well.
        """
        return a if self.right is None else a @ self.right.T


def shares(sizes: dict[str, int], numbers: int) -> dict[str, int]:
    """Divide `numbers` among parameters: small parameters get all they have, the others equal shares of the rest.

    Args:
        sizes: Number of scalars per parameter.
        numbers: Total size of the sketch.

    Example:
        >>> shares({"large": 900, "huge": 10_000, "small": 10}, 110)
        {'small': 10, 'large': 50, 'huge': 50}
    """
    left, given = numbers, dict[str, int]()
    for number, name in enumerate(sorted(sizes, key=lambda name: sizes[name])):
        given[name] = min(sizes[name], max(1, left // (len(sizes) - number)))
        left -= given[name]
    return given


def _signs(rows: int, columns: int, *address: int | str) -> torch.Tensor:
    seed, *rest = address
    return torch.from_numpy(generator(seed, "sketch", *rest).integers(0, 2, (rows, columns)) * 2.0 - 1.0)
