"""Blocks: samples dealt at random into parts small enough for a selector that is quadratic in its source.

Every block is a random sample of the whole, has its share of the budget to within one sample, and is drawn by
(seed, id): the same on every machine and in every order of the data.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from moso.selection.draws import shuffled
from moso.selection.problem import Problem
from moso.selection.quotas import proportional_quotas


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
