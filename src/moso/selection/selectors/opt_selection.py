"""`opt`: remove the set of samples whose summed influence on the parameters is smallest (OPT).

Believes that training without a redundant set of samples gives nearly the same network. With s_z the influence of
removing z on the parameters (`evidence/second_order/influences.py`), which is additive over a set, and w_z in {0, 1}
for kept and removed:

    fixed size     minimise | sum_z w_z s_z |_2     so that  sum_z w_z = removed
    fixed bound    maximise   sum_z w_z             so that  | sum_z w_z s_z |_2 <= bound

Both are hard combinatorial problems, solved here by local search. The removed set starts as the samples with the
smallest influences. Each pass tries to exchange every removed sample for the kept sample that makes the norm of the sum
smallest, and accepts the exchange if the norm falls; the search ends when a pass changes nothing or after `passes`
passes. `kicks` perturb the result and search again. Many sets have nearly the same norm (if all influences sum to zero,
as at the end of training, a set and its complement have equal norms), and the linear estimate is more accurate for
small influences: hence this starting point. For a fixed bound, the result is the largest set found within the bound.

O(N block (d + passes)): above `block` samples the data is divided at random into blocks, which are solved in sequence;
each block compensates for the sum of the blocks before it. A fixed bound takes up to 16 + log N such solutions.

Source: Yang et al., Dataset Pruning: Reducing Training Data by Examining Generalization Influence, ICLR 2023: the two
problems. The solver is ours.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso import errors
from moso.randomness import generator
from moso.selection.blocks import KEPT, Gram, blocks
from moso.selection.feature_rows import Features
from moso.selection.problem import Problem
from moso.settings import Settings

# Smallest accepted decrease of the squared norm, relative to the mean squared influence: less is rounding error.
_LEAST = 1e-10
_SIZES = 17  # sizes tried for a fixed bound, before bisection between two of them


class OptSettings(Settings):
    """Settings of `opt`: effort of the local search, and the block size."""

    passes: int = Field(5, ge=0, description="times every removed sample is tried for an exchange, at most")
    kicks: int = Field(4, ge=0, description="times the best set found is disturbed at random and improved again")
    block: int = Field(
        KEPT, ge=2, description="samples solved at once; more are dealt into blocks of at most this many"
    )


def opt(problem: Problem, settings: OptSettings) -> NDArray[np.int64]:
    """Return `budget` positions; the removed samples together move the parameters little."""
    kept, moved = [], np.zeros(problem.rows_for("opt", "influences").dimension)
    for where, part in blocks(problem, settings.block, "opt"):
        points = part.rows_for("opt", "influences").take(np.arange(len(part))).astype(np.float64)
        removed = _Removal(points, moved, len(part) - part.budget).best(settings, part.seed, int(part.keys[0]))
        kept.append(where[~removed])
        moved = moved + points[removed].sum(axis=0)
    return np.concatenate(kept)


def select_fixed_size(
    influences: object, budget: int, seed: int = 0, *, passes: int = 5, kicks: int = 4, block: int = KEPT
) -> NDArray[np.int64]:
    """Return the ascending positions of the `budget` kept samples; the removed samples move the parameters little.

    Args:
        influences: One influence vector per sample, shape ``[samples, dimension]``; may be a memory map.
        budget: Number of samples to keep.
        seed: Seed of blocks and kicks.
        passes: Largest number of passes of exchanges.
        kicks: Number of random perturbations.
        block: Largest number of samples solved at once.

    Raises:
        BudgetImpossible: `budget` is not between 1 and the number of samples.
        ValuesNotFinite: An influence is NaN or infinite.

    Example:
        >>> select_fixed_size([[1.0, 0.0], [0.0, 3.0], [-1.0, 0.0], [0.0, 1.0]], budget=2)
        array([1, 3])
    """
    problem = _problem(influences, seed)
    if not 1 <= budget <= len(problem):
        raise errors.BudgetImpossible(
            f"{budget} of {len(problem)} samples cannot stay; the budget is a number from 1 to all of them"
        )
    return np.sort(opt(replace(problem, budget=budget), OptSettings(passes=passes, kicks=kicks, block=block)))


def select_fixed_bound(
    influences: object,
    bound: float,
    seed: int = 0,
    *,
    most: float = 0.5,
    passes: int = 5,
    kicks: int = 4,
    block: int = KEPT,
) -> NDArray[np.int64]:
    """Return the ascending positions of the kept samples when as many as possible are removed within `bound`.

    Args:
        influences: One influence vector per sample, shape ``[samples, dimension]``; may be a memory map.
        bound: Largest distance that the removal may move the parameters.
        seed: Seed of blocks and kicks.
        most: Largest share of samples that may be removed, in ``(0, 1)``. Without this limit, if the influences sum to
            zero, the linear estimate would allow removing everything.
        passes: Largest number of passes of exchanges.
        kicks: Number of random perturbations.
        block: Largest number of samples solved at once.

    Raises:
        SettingInvalid: `bound` is negative, or `most` is out of range.
        ValuesNotFinite: An influence is NaN or infinite.

    Example:
        >>> select_fixed_bound([[1.0, 0.0], [0.0, 3.0], [-1.0, 0.0], [0.0, 1.0]], bound=0.5)
        array([1, 3])
    """
    if not bound >= 0:
        raise errors.SettingInvalid(
            f"bound {bound} is no distance; it is how far removing may move the parameters, 0 or more"
        )
    if not 0 < most < 1:
        raise errors.SettingInvalid(f"most = {most} is outside (0, 1); it is the largest share of samples that may go")
    whole, settings = _problem(influences, seed), OptSettings(passes=passes, kicks=kicks, block=block)
    count = len(whole)

    def within(removed: int) -> NDArray[np.int64] | None:
        kept = opt(replace(whole, budget=count - removed), settings) if removed else np.arange(count)
        return kept if distance_moved(influences, kept) <= bound else None

    # A larger set can have a smaller norm, so sizes are tried from the largest down, with bisection only in between.
    sizes = np.unique(np.linspace(0, int(most * count + 1e-9), _SIZES).astype(np.int64))[::-1].tolist()
    fits, best = next((size, kept) for size in sizes if (kept := within(size)) is not None)
    too_many = sizes[sizes.index(fits) - 1] if fits < sizes[0] else fits + 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        kept = within(middle)
        fits, best, too_many = (fits, best, middle) if kept is None else (middle, kept, too_many)
    return np.sort(best)


def distance_moved(influences: object, kept: NDArray[np.int64]) -> float:
    """Return how far removing all samples but `kept` moves the parameters: the norm of the sum of their influences.

    Args:
        influences: One influence vector per sample, shape ``[samples, dimension]``; may be a memory map.
        kept: Positions of the kept samples.

    Example:
        >>> distance_moved([[3.0, 0.0], [0.0, 4.0], [9.0, 9.0]], np.array([2]))
        5.0
    """
    rows = Features(influences)
    removed = np.ones(len(rows), dtype=bool)
    removed[kept] = False
    total = np.zeros(rows.dimension)
    for start, part in rows.chunks():
        total += part[removed[start : start + len(part)]].sum(axis=0, dtype=np.float64)
    return float(np.linalg.norm(total))


def _problem(influences: object, seed: int) -> Problem:
    rows = Features(influences)
    rows.check_finite()
    return Problem(np.zeros(len(rows)), len(rows), rows={"influences": rows}, seed=seed)


class _Removal:
    """Local search for the `count` rows of `points` to remove, given the sum `moved` of rows removed in earlier blocks.

    `pull[z]` is s_z . r, with r the sum of all removed rows. The change of |r|^2 by an exchange follows from `pull` and
    the
    inner products alone.
    """

    def __init__(self, points: NDArray[np.float64], moved: NDArray[np.float64], count: int) -> None:
        self.points, self.moved, self.count = points, moved, count
        self.gram = Gram(points)
        self.least = _LEAST * float(self.gram.squared_norms.mean())

    def best(self, settings: OptSettings, *address: int) -> NDArray[np.bool_]:
        """Return the best set found, as a mask ``[n]``."""
        start = np.zeros(len(self.points), dtype=bool)
        start[np.argsort(self.gram.squared_norms, kind="stable")[: self.count]] = True
        best = self.improved(start, settings.passes)
        shortest = self.squared_length(best)
        for number in range(settings.kicks):
            tried = self.improved(self.kicked(best, generator(*address, "opt", "kick", number)), settings.passes)
            if (length := self.squared_length(tried)) < shortest - self.least:
                best, shortest = tried, length
        return best

    def squared_length(self, removed: NDArray[np.bool_]) -> float:
        """Return |r|^2."""
        return float(np.square(self.moved + self.points[removed].sum(axis=0)).sum())

    def kicked(self, removed: NDArray[np.bool_], draw: np.random.Generator) -> NDArray[np.bool_]:
        """Return the set with a fiftieth of its members, at least two, exchanged at random."""
        inside, outside = np.flatnonzero(removed), np.flatnonzero(~removed)
        many = min(max(2, len(inside) // 50), len(inside), len(outside))
        removed = removed.copy()
        removed[draw.choice(inside, many, replace=False)] = False
        removed[draw.choice(outside, many, replace=False)] = True
        return removed

    def improved(self, removed: NDArray[np.bool_], passes: int) -> NDArray[np.bool_]:
        """Return the set after one-for-one exchanges, each of which decreases |r|^2."""
        removed, norms = removed.copy(), self.gram.squared_norms
        pull = self.points @ (self.moved + self.points[removed].sum(axis=0))
        barrier = np.where(removed, np.inf, 0.0)
        for _ in range(passes if not removed.all() else 0):
            before = removed.copy()
            for back in np.flatnonzero(removed):
                row = self.gram.row(int(back))
                cost = 2 * (pull - row) + norms + barrier
                out = int(np.argmin(cost))
                if cost[out] - 2 * pull[back] + norms[back] < -self.least:
                    removed[back], removed[out] = False, True
                    barrier[back], barrier[out] = 0.0, np.inf
                    pull += self.gram.row(out) - row
            if (removed == before).all():
                break
        return removed
