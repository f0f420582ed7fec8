"""`moso-cross`: MoSo of a sample at surrogates that were not trained on it, by rank or by sum.

Believes what `moso` believes, but distrusts a network that has learned the sample by heart: at its own surrogate a
wrong label is fitted late in training, its gradient vanishes, and its term goes to 0 from below. At the surrogate `j`
of another partition `S_j` nothing was fitted. With `w_t` and the mean gradient `G_t` of `S_j`:

    a_t(z) = G_t . g_z(w_t),   z not in S_j        G_t = mean of g over S_j at w_t
    M(z)   = mean over judges j and steps k of (rank_z(a_{t_k}) - 1) / (N_judged - 1)       combine = "rank"
    M(z)   = mean over judges j of T/K sum_k eta_{t_k} a_{t_k}(z)                           combine = "sum"

The sum is Proposition 1.1 without its leave-one-out part. It estimates how far the training on `S_j` lowers the loss of
`z`: an update of plain gradient descent changes that loss by `-eta G . g_z` to first order, so with all T steps and
small rates the sum is `loss_z(w_0) - loss_z(w_T)`. With Adam that takes `--optimizer-aware`, and the loss must be the
whole of what its gradient is taken of (docs/pairs.md). Ranks need few steps, sums need many.

Ranks are taken among all samples that judge `j` judges; ties share their mean rank. `judges = "one"` takes the
surrogate of the next partition (the cost of `moso`), `"all"` all others. `G_t` must be that of the samples that the
surrogate was trained on: it is what is left of what these samples ask for, and points where they agree. The mean
gradient of samples that the surrogate did not see is dominated by those it is most wrong about, the wrong labels among
them (docs/methods/moso-cross.md).

Scale: 0 = last at every step and judge, 1 = first; sums are a fall of the loss. Keep: high. Hard: low.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.columns import empty_column
from moso.evidence_kinds.cross_terms import CROSS_TERMS, CROSS_TERMS_ALL, JudgedTerms, Judges
from moso.scores.moso import agreement
from moso.scores.score import Score, ScoreInput
from moso.settings import Settings

Combine = Literal["rank", "sum"]


class CrossSettings(Settings):
    """Settings of `moso-cross`: the surrogates that judge a sample, and how their steps are combined."""

    later = frozenset({"combine"})

    judges: Judges = Field("one", description="the surrogate of the next partition judges a sample, or all others do")
    combine: Combine = Field(
        "rank",
        description="the mean rank over time steps, or the sum of terms times learning rates, for many time steps",
    )

    def needs(self) -> frozenset[str]:
        """Return the kind of out-of-sample step terms that these judges leave."""
        return frozenset({CROSS_TERMS.name if self.judges == "one" else CROSS_TERMS_ALL.name})


def moso_cross_score(judgements: Sequence[JudgedTerms], samples: int, combine: Combine = "rank") -> NDArray[np.float64]:
    """Compute the mean of every sample over its judges and their steps, shape ``[samples]``.

    Args:
        judgements: What each judge says of the samples that it was not trained on.
        samples: Number of samples.
        combine: ``"rank"`` for scaled ranks, ``"sum"`` for terms times learning rates and the number of updates.

    Returns:
        One float64 per sample; samples without a judge are NaN.
    """
    from scipy.stats import rankdata  # imported here: importing scipy.stats takes half a second

    total, count = empty_column(samples, np.float64), np.zeros(samples, dtype=np.int64)
    total.fill(0.0)
    for judged in judgements:
        for step in judged.steps:
            terms = agreement(step)
            if combine == "sum":
                total[judged.positions] += judged.total_steps * terms
            else:
                total[judged.positions] += (rankdata(terms) - 1) / max(1, step.samples - 1)
        count[judged.positions] += len(judged.steps)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / count)


def _compute(given: ScoreInput, settings: CrossSettings) -> NDArray[np.float64]:
    kind = CROSS_TERMS if settings.judges == "one" else CROSS_TERMS_ALL
    return moso_cross_score(given.read(kind), len(given.keys), settings.combine)


MOSO_CROSS = Score(
    "moso-cross",
    "MoSo by rank at surrogates that were not trained on the sample",
    _compute,
    hard="low",
    scale="0 = last of the judged samples at every sampled step, 1 = first at every one",
    formula="1/K sum_k rank(G_k . g) / (N - 1), at another partition's surrogate",
    source="Tan et al., NeurIPS 2023, judged out of sample and combined by rank",
    settings=CrossSettings,
    no_unseen="it is out of sample already, the counterpart of 'moso-rank'",
)
