"""`herding`: keep samples whose mean feature vector matches that of their class.

Believes that the mean in feature space represents a class. With mu the mean of the class, greedily:

    rule = "mean":     argmin_x | mu - (x_1 + .. + x_t + x) / (t + 1) |         the running mean's error
    rule = "welling":  argmax_x < w_t, x >,   w_0 = mu,  w_{t+1} = w_t + mu - x_{t+1}

Both rules agree if all features have the same norm. The first rule is what comparisons of data pruning call herding;
the second is the original. No sample is taken twice. O(n_c k_c d) per class. A class of more than `block` samples is
divided at random into blocks, and each block is herded towards the mean of the whole class with its share of the
budget, in O(n_c block d): the error of the whole is then at most the average of the blocks' errors.

Source: Welling, Herding Dynamical Weights to Learn, ICML 2009; rule "mean": Rebuffi et al., iCaRL, CVPR 2017,
Algorithm 4.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.selection.blocks import KEPT, Gram, blocks
from moso.selection.classes import ClasswiseSettings, per_class
from moso.selection.problem import Problem


class HerdingSettings(ClasswiseSettings):
    """Settings of `herding`: the rule, the classes whose means are matched, and the block size."""

    rule: Literal["mean", "welling"] = Field(
        "mean", description="least error of the running mean, or Welling's weights"
    )
    block: int = Field(
        KEPT, ge=2, description="samples herded at once; more are dealt into blocks of at most this many"
    )


def herding(problem: Problem, settings: HerdingSettings) -> NDArray[np.int64]:
    """Return `budget` positions; the mean of each class's kept samples approximates the mean of the class."""

    def herd(part: Problem) -> NDArray[np.int64]:
        mean = part.rows_for("herding").mean()
        parts = blocks(part, settings.block, "herding")
        return np.concatenate([where[_follow(one, mean, settings.rule)] for where, one in parts])

    return per_class(problem, "herding", settings.classes, herd)


def _follow(problem: Problem, mean: NDArray[np.float64], rule: str) -> NDArray[np.int64]:
    away = problem.rows_for("herding").take(np.arange(len(problem))) - mean
    gram = Gram(away)
    # With x = mu + z, both rules are: argmax of fixed(x) - sum over the chosen samples i of <z, z_i>.
    gain = -gram.squared_norms / 2 if rule == "mean" else away @ mean
    chosen = np.empty(problem.budget, dtype=np.int64)
    for step in range(problem.budget):
        chosen[step] = np.argmax(gain)
        gain = gain - gram.row(int(chosen[step]))
        gain[chosen[step]] = -np.inf
    return chosen
