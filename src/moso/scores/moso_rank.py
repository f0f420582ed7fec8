"""`moso-rank`: MoSo by rank at every stage of training.

Believes what `moso` believes, but uses only the order of the samples at a step, because single steps have heavy
outliers. Each step's terms are replaced by their ranks inside the partition, scaled to [0, 1] (ties share their mean
rank); the ranks are averaged over the steps.

    M(z) = 1/K * sum_k (rank_z(eta_{t_k} a_{t_k}) - 1) / (N - 1)

Scale: 0 = last at every sampled step, 1 = first at every sampled step. Keep: high. Hard: low.
Robust to heavy label noise.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence import PartitionTerms
from moso.scores.moso import agreement, per_partition
from moso.scores.score import Form, Score


def moso_rank_score(terms: PartitionTerms, form: Form = "paper") -> NDArray[np.float64]:
    """Compute the mean scaled rank of every sample of one partition, shape ``[samples]``."""
    from scipy.stats import rankdata  # imported here: importing scipy.stats takes half a second

    ranks = [(rankdata(agreement(step, form)) - 1) / max(1, terms.samples - 1) for step in terms.steps]
    return np.asarray(np.mean(ranks, axis=0))


MOSO_RANK = Score(
    "moso-rank",
    "MoSo by rank at every time step: single steps have heavy outliers",
    per_partition(moso_rank_score),
    frozenset({"terms"}),
    hard="low",
    scale="0 = last of its partition at every sampled step, 1 = first at every one",
    formula="1/K sum_k rank(eta_k a_k) / (N - 1)",
    source="Tan et al., NeurIPS 2023, combined by rank",
)
