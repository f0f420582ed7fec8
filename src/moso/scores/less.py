"""`less`: how far Adam's update for the sample points the way that a target's loss falls.

Believes that a sample is worth keeping for a target (a validation set) if the step that Adam would take for the sample
alone is similar to the step that would help the target. Cosines and not products, because gradients of short sequences
are longer.

    M(z) = 1/K sum_k eta_k cos( grad R(w_k), Gamma(z; w_k) )

`Gamma` is Adam's update (`evidence/adam_directions.py`). Scale: a learning rate times a cosine. Keep: high. Hard: low.
Source: Xia et al., LESS: Selecting Influential Data for Targeted Instruction Tuning, ICML 2024, Definition 3.1. Its
authors sum over the ends of four epochs of a warm-up on 5 % of the data; here, over sampled steps of the surrogate.
"""

import numpy as np
from numpy.typing import NDArray

from moso.columns import empty_column
from moso.evidence import PartitionTerms
from moso.evidence_kinds.adam_similarities import ADAM_SIMILARITIES
from moso.scores.moso import agreement
from moso.scores.score import Score, ScoreInput


def less_score(terms: PartitionTerms) -> NDArray[np.float64]:
    """Compute the mean over steps of rate times cosine, for every sample of one partition, shape ``[samples]``."""
    return np.asarray(np.mean([agreement(step) for step in terms.steps], axis=0))


def _compute(given: ScoreInput) -> NDArray[np.float64]:
    scores: NDArray[np.float64] = empty_column(len(given.keys), np.float64)
    scores.fill(np.nan)
    for positions, terms in zip(given.partitions, given.read(ADAM_SIMILARITIES), strict=True):
        scores[positions] = less_score(terms)
    return scores


LESS = Score(
    "less",
    "Adam's update for the sample points the way that the target's loss falls",
    _compute,
    frozenset({"less-similarities"}),
    hard="low",
    scale="a learning rate times a cosine",
    formula="1/K sum_k eta_k cos(grad R, Gamma(z))",
    source="Xia et al., ICML 2024, Definition 3.1",
)
