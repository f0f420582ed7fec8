"""`grand-steps`: the length of the gradient at MoSo's own time steps.

Believes what `grand` believes, but looks at the surrogate of the sample's partition at the same sampled steps as MoSo,
whose second stored term is this length squared: it costs nothing more. It is what the MoSo paper compares itself with.

    1/K * sum_k | g_{t_k} |_2                        the mean of Definition 2.1 of `grand`'s source over sampled steps

Scale: a length; partitions differ a little in theirs. Keep: high. Hard: high.
Source: Tan et al., Data Pruning via Moving-one-Sample-out, NeurIPS 2023, caption of the comparison of costs.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence import PartitionTerms
from moso.scores.moso import per_partition
from moso.scores.score import Form, Score


def grand_steps(terms: PartitionTerms, form: Form = "paper") -> NDArray[np.float64]:
    """The score of every sample of a partition, `[samples]`; the form of MoSo does not matter to it."""
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
)
