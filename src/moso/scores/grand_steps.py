"""`grand-steps`: the L2 norm of the per-sample gradient at MoSo's time steps.

Believes what `grand` believes, but measures the surrogate of the sample's partition at the steps that MoSo samples.
MoSo's second stored term is the squared gradient norm, so this score costs nothing more. The MoSo paper compares itself
with this score.

    1/K * sum_k | g_{t_k} |_2                        the mean of Definition 2.1 of `grand`'s source over sampled steps

Scale: a gradient norm; its scale differs slightly between partitions. Keep: high. Hard: high.
Source: Tan et al., Data Pruning via Moving-one-Sample-out, NeurIPS 2023, caption of the comparison of costs.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence import PartitionTerms
from moso.scores.moso import per_partition
from moso.scores.score import Form, Score


def grand_steps(terms: PartitionTerms, form: Form = "paper") -> NDArray[np.float64]:
    """Compute the score of every sample of one partition.

    Args:
        terms: The stored terms of the partition's sampled steps.
        form: Form of MoSo; ignored, present for the common signature.

    Returns:
        Mean gradient norm over the sampled steps, shape ``[samples]``.
    """
    return np.asarray(np.mean([np.sqrt(step.squared_norm.sum(axis=0)) for step in terms.steps], axis=0))


GRAND_STEPS = Score(
    "grand-steps",
    "what pulls hardest on the network, at MoSo's own time steps",
    per_partition(grand_steps),
    frozenset({"terms", "norms"}),
    hard="high",
    scale="the length of the gradient, averaged over the sampled steps",
    formula="1/K sum_k | g_{t_k} |_2",
    source="Paul et al., NeurIPS 2021, by the rule of Tan et al., NeurIPS 2023",
    no_unseen="gradient norms are measured at networks that were trained on the sample alone",
)
