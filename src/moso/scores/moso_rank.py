"""`moso-rank`: MoSo by rank at every stage of training.

Believes what `moso` believes, but uses only the order of the samples at a step, because single steps have heavy
outliers. Each step's terms are replaced by their ranks inside the partition, scaled to [0, 1] (ties share their mean
rank); the ranks are averaged over the steps.

    M(z) = sum_k w_k (rank_z(eta_{t_k} a_{t_k}) - 1) / (N - 1)        sum_k w_k = 1

`weights = "equal"` weighs all steps alike, `"late"` the last third of them only, and `"agreement"` each step by the
mean correlation of its ranks with those of the other steps, at least 0 (docs/results/time-step-weights.md compares
them). Scale: 0 = last at every sampled step, 1 = first at every sampled step. Keep: high. Hard: low. Robust to heavy
label noise.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.columns import empty_column
from moso.evidence import PartitionTerms
from moso.evidence_kinds.step_terms import TERMS
from moso.scores.moso import agreement
from moso.scores.score import Form, Score, ScoreInput
from moso.settings import Settings

Weights = Literal["equal", "late", "agreement"]


class RankSettings(Settings):
    """Settings of `moso-rank`: the weights of the time steps."""

    later = frozenset({"weights"})

    weights: Weights = Field(
        "equal", description="time steps weigh alike, only the last third counts, or those that agree with others more"
    )


def moso_rank_score(terms: PartitionTerms, form: Form = "paper", weights: Weights = "equal") -> NDArray[np.float64]:
    """Compute the weighted mean of the scaled ranks of every sample of one partition, shape ``[samples]``."""
    from scipy.stats import rankdata  # imported here: importing scipy.stats takes half a second

    steps = terms.steps[-late_steps(len(terms.steps)) :] if weights == "late" else terms.steps
    ranks = [(rankdata(agreement(step, form)) - 1) / max(1, terms.samples - 1) for step in steps]
    if weights == "agreement":
        return np.asarray(np.average(ranks, axis=0, weights=agreement_weights(np.stack(ranks))))
    return np.asarray(np.mean(ranks, axis=0))


def late_steps(count: int) -> int:
    """Return the number of late steps among `count`: the last third, at least one.

    Example:
        >>> [late_steps(count) for count in (1, 2, 3, 10)]
        [1, 1, 1, 3]
    """
    return max(1, count // 3)


def agreement_weights(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one weight per step: the mean correlation of its ranks with those of the other steps, at least 0.

    Args:
        ranks: Scaled ranks, shape ``[steps, samples]``.

    Returns:
        Weights that sum to 1, shape ``[steps]``; equal ones if there is one step, or no agreement at all.

    Example:
        >>> agreement_weights(np.array([[0.0, 0.5, 1.0], [0.0, 0.5, 1.0], [1.0, 0.5, 0.0]]))
        array([0.33333333, 0.33333333, 0.33333333])
        >>> agreement_weights(np.array([[0, 1, 2, 3.0], [0, 1, 2, 3.0], [1, 3, 0, 2.0]])).round(2)
        array([0.5, 0.5, 0. ])
    """
    count = len(ranks)
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    lengths = np.sqrt((centred**2).sum(axis=1))
    scaled = np.divide(centred, lengths[:, None], out=np.zeros_like(centred), where=lengths[:, None] > 0)
    others = (scaled @ scaled.T).sum(axis=1) - (lengths > 0)
    weights = np.clip(others / max(1, count - 1), 0.0, None)
    total = weights.sum()
    return np.asarray(weights / total) if total > 1e-12 else np.full(count, 1 / count)


def _compute(given: ScoreInput, settings: RankSettings) -> NDArray[np.float64]:
    scores: NDArray[np.float64] = empty_column(len(given.keys), np.float64)
    scores.fill(np.nan)
    for positions, terms in zip(given.partitions, given.read(TERMS), strict=True):
        scores[positions] = moso_rank_score(terms, given.form, settings.weights)
    return scores


MOSO_RANK = Score(
    "moso-rank",
    "MoSo by rank at every time step: single steps have heavy outliers",
    _compute,
    frozenset({"terms"}),
    hard="low",
    scale="0 = last of its partition at every sampled step, 1 = first at every one",
    formula="sum_k w_k rank(eta_k a_k) / (N - 1)",
    source="Tan et al., NeurIPS 2023, combined by rank",
    settings=RankSettings,
    no_unseen="method 'moso-cross' is MoSo out of sample, by rank",
)
