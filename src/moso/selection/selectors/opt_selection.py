"""`opt`: remove the samples that, all together, move the network least (OPT).

Believes that the network trained without a redundant set of samples is nearly the same network. With s_z the influence
of removing z on the parameters (`evidence/influences.py`), which for a set add up, and w_z in {0, 1} for kept and
removed:

    fixed size     minimise | sum_z w_z s_z |_2     so that  sum_z w_z = removed
    fixed bound    maximise   sum_z w_z             so that  | sum_z w_z s_z |_2 <= bound

Both are too hard to solve to the end. Here the removed set starts as the samples of least influence each, and is then
improved by exchanges: every removed sample in turn gives its place to the kept one that makes the sum shortest, if it
is shorter than before, until nobody does or `passes` are over; `kicks` disturb the result and improve it again. Many
sets have nearly the same sum (where influences add up to nothing, as at the end of training, a set has that of all the
others), and the linear estimate is the better the less each sample moves: that is why it starts where it does. The
fixed bound is the largest size found whose set stays within it.

O(N block (d + passes)): beyond `block` samples the data is dealt at random into blocks that are solved one after the
other, each making up for the sum that those before it have left. The fixed bound is up to 16 + log N of these.

Source: Yang et al., Dataset Pruning: Reducing Training Data by Examining Generalization Influence, ICLR 2023: the two
problems. The solver is ours.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso import errors
from moso.randomness import generator
from moso.selection.blocks import KEPT, Gram, blocks
from moso.selection.feature_rows import Features
from moso.selection.problem import Problem
from moso.settings import Settings

# By how much of a mean squared influence an exchange must shorten the squared sum: less is rounding.
_LEAST = 1e-10
_SIZES = 17  # tried for the fixed bound, before it is halved between two of them


class OptSettings(Settings):
    """How long the solver tries, and on how many samples at once."""

    passes: int = Field(5, ge=0, description="times every removed sample is tried for an exchange, at most")
    kicks: int = Field(4, ge=0, description="times the best set found is disturbed at random and improved again")
    block: int = Field(
        KEPT, ge=2, description="samples solved at once; more are dealt into blocks of at most this many"
    )


def opt(problem: Problem, settings: OptSettings) -> NDArray[np.int64]:
    """`budget` samples; what is removed moves the parameters little."""
    kept, moved = [], np.zeros(problem.rows_for("opt", "influences").dimension)
    for where, part in blocks(problem, settings.block, "opt"):
        points = part.rows_for("opt", "influences").take(np.arange(len(part))).astype(np.float64)
        removed = _Removal(points, moved, len(part) - part.budget).best(settings, part.seed, int(part.keys[0]))
        kept.append(where[~removed])
        moved = moved + points[removed].sum(axis=0)
    return np.concatenate(kept)


def select_fixed_size(
    influences: Any, budget: int, seed: int = 0, *, passes: int = 5, kicks: int = 4, block: int = KEPT
) -> NDArray[np.int64]:
    """The positions of the `budget` samples that stay, ascending; the removed ones move the parameters little.

    `influences: [n, d]` may be a memory map.

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
    influences: Any,
    bound: float,
    seed: int = 0,
    *,
    most: float = 0.5,
    passes: int = 5,
    kicks: int = 4,
    block: int = KEPT,
) -> NDArray[np.int64]:
    """The positions that stay, ascending, when as many go as move the parameters by no more than `bound`.

    No more than the share `most` goes: where influences add up to nothing, the linear estimate says of a set what it
    says of all the others, and removing everything would cost nothing.

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

    # More samples can have a shorter sum, so sizes are tried from the largest down, and halved only in between.
    sizes = np.unique(np.linspace(0, int(most * count + 1e-9), _SIZES).astype(np.int64))[::-1].tolist()
    fits, best = next((size, kept) for size in sizes if (kept := within(size)) is not None)
    too_many = sizes[sizes.index(fits) - 1] if fits < sizes[0] else fits + 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        kept = within(middle)
        fits, best, too_many = (fits, best, middle) if kept is None else (middle, kept, too_many)
    return np.sort(best)


def distance_moved(influences: Any, kept: NDArray[np.int64]) -> float:
    """How far removing all but `kept` moves the parameters: the length of the sum of what is removed.

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


def _problem(influences: Any, seed: int) -> Problem:
    rows = Features(influences)
    rows.check_finite()
    return Problem(np.zeros(len(rows)), len(rows), rows={"influences": rows}, seed=seed)


class _Removal:
    """Which `count` of the rows of `points: [n, d]` go, and how they pull on the sum `moved` of those that went before.

    `pull[z]` is s_z . r with r the sum of all that goes, so an exchange changes |r|^2 by what `pull` and the inner
    products say, and nothing else has to be looked at.
    """

    def __init__(self, points: NDArray[np.float64], moved: NDArray[np.float64], count: int) -> None:
        self.points, self.moved, self.count = points, moved, count
        self.gram = Gram(points)
        self.least = _LEAST * float(self.gram.squared_norms.mean())

    def best(self, settings: OptSettings, *address: int) -> NDArray[np.bool_]:
        """The best set found, as a mask."""
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
        """|r|^2."""
        return float(np.square(self.moved + self.points[removed].sum(axis=0)).sum())

    def kicked(self, removed: NDArray[np.bool_], draw: np.random.Generator) -> NDArray[np.bool_]:
        """The same set with a fiftieth of it, two at the least, exchanged at random."""
        inside, outside = np.flatnonzero(removed), np.flatnonzero(~removed)
        many = min(max(2, len(inside) // 50), len(inside), len(outside))
        removed = removed.copy()
        removed[draw.choice(inside, many, replace=False)] = False
        removed[draw.choice(outside, many, replace=False)] = True
        return removed

    def improved(self, removed: NDArray[np.bool_], passes: int) -> NDArray[np.bool_]:
        """The set after exchanges of one for one, each of which makes the sum shorter."""
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
