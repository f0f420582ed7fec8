"""Shared by selectors with quadratic cost: random blocks of bounded size, and the inner products inside a block.

Every block is a random sample of the whole data set with its proportional share of the budget, to within one sample.
Blocks are drawn by (seed, id), so they do not depend on the machine or on the order of the data.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from moso.selection.orders import shuffled
from moso.selection.problem import Problem
from moso.selection.quotas import proportional_quotas

# Up to this many samples the whole Gram matrix is cached (128 MiB in float64); beyond, rows are computed on demand.
KEPT = 4096


def blocks(problem: Problem, size: int, purpose: str) -> Iterator[tuple[NDArray[np.int64], Problem]]:
    """Split a problem into random blocks, each with its share of the budget.

    Args:
        problem: The problem to split.
        size: Largest number of samples per block.
        purpose: Name of the random draw, usually the selector's name.

    Yields:
        Ascending positions of a block, and the block's own problem; blocks without a budget are skipped.

    Example:
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
    """The inner products of the rows of `points`, shape ``[samples, dimension]``, in float64.

    Attributes:
        squared_norms: Inner product of each row with itself, shape ``[samples]``.

    Example:
        >>> gram = Gram(np.array([[1.0, 0.0], [1.0, 2.0]]))
        >>> gram.row(1), gram.squared_norms
        (array([1., 5.]), array([1., 5.]))
    """

    def __init__(self, points: NDArray[np.float64]) -> None:
        self._points = points
        self._all = points @ points.T if len(points) <= KEPT else None
        self.squared_norms: NDArray[np.float64] = np.einsum("nd,nd->n", points, points)

    def row(self, position: int) -> NDArray[np.float64]:
        """Return the inner products of one sample with all samples, shape ``[samples]``."""
        return np.asarray(self._all[position] if self._all is not None else self._points @ self._points[position])
