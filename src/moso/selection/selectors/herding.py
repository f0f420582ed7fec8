"""`herding`: keep samples whose mean feature vector matches the centre of their class.

Believes that a centre in feature space represents a class. With mu the centre of the class, greedily:

    rule = "mean":     argmin_x | mu - (x_1 + .. + x_t + x) / (t + 1) |         the running mean's error
    rule = "welling":  argmax_x < w_t, x >,   w_0 = mu,  w_{t+1} = w_t + mu - x_{t+1}

    centre = "mean":              mu = mean of the class
    centre = "geometric-median":  mu = argmin_m sum_x | m - x |

The mean follows a single far sample anywhere; the geometric median stays near the others as long as less than half of
the samples are corrupted (its breakdown point is 1/2). Method `gm-matching` takes it, with Welling's rule on features
scaled to norm 1 (`normalise`), so that a corrupted sample cannot win by its norm.

Both rules agree if all features have the same norm. The first rule is what comparisons of data pruning call herding;
the second is the original. No sample is taken twice. O(n_c k_c d) per class. A class of more than `block` samples is
divided at random into blocks, and each block is herded towards the centre of the whole class with its share of the
budget, in O(n_c block d): the error of the whole is then at most the average of the blocks' errors.

Source: Welling, Herding Dynamical Weights to Learn, ICML 2009; rule "mean": Rebuffi et al., iCaRL, CVPR 2017,
Algorithm 4; centre "geometric-median": Acharya et al., Geometric Median Matching for Robust k-Subset Selection from
Noisy Data, ICML 2025 (arXiv 2504.00564). The authors' code starts at a random sample and scales the centre to norm 1,
too, which no mean of kept samples can match; here the start and the centre are those of the paper's algorithm.
"""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.selection.blocks import KEPT, Gram, blocks
from moso.selection.classes import ClasswiseSettings, per_class
from moso.selection.feature_rows import Features
from moso.selection.geometric_median import geometric_median
from moso.selection.problem import Problem


class HerdingSettings(ClasswiseSettings):
    """Settings of `herding`: the rule, the centres that are matched, and the block size."""

    later: ClassVar[frozenset[str]] = frozenset({"centre", "normalise"})

    rule: Literal["mean", "welling"] = Field(
        "mean", description="least error of the running mean, or Welling's weights"
    )
    block: int = Field(
        KEPT, ge=2, description="samples herded at once; more are dealt into blocks of at most this many"
    )
    centre: Literal["mean", "geometric-median"] = Field(
        "mean", description="centre that is matched: the mean, or the geometric median, which outliers move little"
    )
    normalise: bool = Field(False, description="scale features to norm 1 first")


def herding(problem: Problem, settings: HerdingSettings) -> NDArray[np.int64]:
    """Return `budget` positions; the mean of each class's kept samples approximates the centre of the class."""

    def herd(part: Problem) -> NDArray[np.int64]:
        features = _features(part, settings)
        centre = features.mean() if settings.centre == "mean" else geometric_median(features)
        parts = blocks(part, settings.block, "herding")
        return np.concatenate([where[_follow(one, centre, settings)] for where, one in parts])

    return per_class(problem, "herding", settings.classes, herd)


def _features(problem: Problem, settings: HerdingSettings) -> Features:
    features = problem.rows_for("herding")
    return features.scaled() if settings.normalise else features


def _follow(problem: Problem, centre: NDArray[np.float64], settings: HerdingSettings) -> NDArray[np.int64]:
    away = _features(problem, settings).take(np.arange(len(problem))) - centre
    gram = Gram(away)
    # With x = mu + z, both rules are: argmax of fixed(x) - sum over the chosen samples i of <z, z_i>.
    gain = -gram.squared_norms / 2 if settings.rule == "mean" else away @ centre
    chosen = np.empty(problem.budget, dtype=np.int64)
    for step in range(problem.budget):
        chosen[step] = np.argmax(gain)
        gain = gain - gram.row(int(chosen[step]))
        gain[chosen[step]] = -np.inf
    return chosen
