"""What selectors share that are quadratic in their source: blocks small enough for them, and inner products in a block.

Every block is a random sample of the whole, has its share of the budget to within one sample, and is drawn by
(seed, id): the same on every machine and in every order of the data.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from moso.selection.orders import shuffled
from moso.selection.problem import Problem
from moso.selection.quotas import proportional_quotas

# Up to this many samples all inner products are kept (128 MiB in float64); beyond, each row is computed when asked for.
KEPT = 4096


def blocks(problem: Problem, size: int, purpose: str) -> Iterator[tuple[NDArray[np.int64], Problem]]:
    """Blocks of at most `size` samples: their positions, ascending, and the problem each one is.

    >>> problem = Problem(np.zeros(7), 3)
    >>> [(len(positions), part.budget) for positions, part in blocks(problem, 3, "example")]
    [(3, 1), (2, 1), (2, 1)]
    """
    count = -(-len(problem) // size)
    if count == 1:
        yield np.arange(len(problem)), problem
        return
    parts = np.array_split(shuffled(problem.keys, problem.seed, purpose, "blocks"), count)
    budgets = proportional_quotas(np.array([len(part) for part in parts]), problem.budget)
    for part, budget in zip(parts, budgets, strict=True):
        positions = np.sort(part)
        if budget:
            yield positions, problem.subset(positions, int(budget))


class Gram:
    """The inner products of the rows of `points: [n, d]`, in float64.

    >>> gram = Gram(np.array([[1.0, 0.0], [1.0, 2.0]]))
    >>> gram.row(1), gram.squared_norms
    (array([1., 5.]), array([1., 5.]))
    """

    def __init__(self, points: NDArray[np.float64]) -> None:
        self._points = points
        self._all = points @ points.T if len(points) <= KEPT else None
        self.squared_norms: NDArray[np.float64] = np.einsum("nd,nd->n", points, points)

    def row(self, position: int) -> NDArray[np.float64]:
        """One sample's inner products with all, `[n]`."""
        return np.asarray(self._all[position] if self._all is not None else self._points @ self._points[position])
