"""`moso-standardised`: MoSo with the terms of every sampled step standardised.

Believes what `moso` believes, and that late steps are as informative as early ones: each step's terms are centred and
divided by their standard deviation inside the partition, then averaged over the steps.

    M(z) = 1/K * sum_k (x_k(z) - mean_z x_k) / std_z x_k        x_k = eta_{t_k} a_{t_k}

Scale: standard deviations from the average sample of its partition. Keep: high. Hard: low.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence import PartitionTerms
from moso.scores.moso import agreement, per_partition
from moso.scores.score import Form, Score


def moso_standardised_score(terms: PartitionTerms, form: Form = "paper") -> NDArray[np.float64]:
    """Compute the mean standardised term of every sample of one partition, shape ``[samples]``."""
    total = np.zeros(terms.samples)
    for step in terms.steps:
        values = agreement(step, form)
        spread = values.std()
        # A step with equal terms for all samples carries no information, and its standard deviation is 0.
        total += (values - values.mean()) / spread if spread > 0 else 0.0
    return total / len(terms.steps)


MOSO_STANDARDISED = Score(
    "moso-standardised",
    "MoSo, every time step on one scale: a late one has as much to say as an early one",
    per_partition(moso_standardised_score),
    frozenset({"terms"}),
    hard="low",
    scale="standard deviations from the average sample of its partition",
    formula="1/K sum_k (x_k - mean x_k) / std x_k,  x_k = eta_k a_k",
    source="Tan et al., NeurIPS 2023, standardised",
    no_unseen="method 'moso-cross' is MoSo out of sample, by rank",
)
