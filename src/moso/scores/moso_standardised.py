"""`moso-standardised`: MoSo with every stage of training on one scale.

Believes what `moso` believes, and that a late step has as much to say as an early one: each step's terms are
centred and divided by their spread inside the partition, then averaged.

    M(z) = 1/K * sum_k (x_k(z) - mean_z x_k) / std_z x_k        x_k = eta_{t_k} a_{t_k}

Scale: standard deviations from the average sample of its partition. Keep: high. Hard: low.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence import PartitionTerms
from moso.scores.moso import agreement, per_partition
from moso.scores.score import Form, Score


def moso_standardised_score(terms: PartitionTerms, form: Form = "paper") -> NDArray[np.float64]:
    """The score of every sample of a partition, `[samples]`."""
    total = np.zeros(terms.samples)
    for step in terms.steps:
        values = agreement(step, form)
        spread = values.std()
        # A step at which all samples agree says nothing about any of them.
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
)
