"""`entropy`: the entropy of the trained network's prediction.

Believes that samples with an uncertain prediction lie at the border between classes, where there is most to learn. With
p the softmax of the trained reference network, in evaluation mode:

    f_entropy(x) = - sum_c p_c log p_c

Scale: 0 (certain) to log(classes) (uniform prediction). Keep: high. Hard: high.
Source: Coleman et al., Selection via Proxy: Efficient Data Selection for Deep Learning, ICLR 2020, section 3.2.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence_kinds.final_outputs import FINAL
from moso.evidence_kinds.surrogate_outputs import UNSEEN
from moso.scores.score import Score, ScoreInput, Unseen


def _compute(given: ScoreInput) -> NDArray[np.float64]:
    return np.asarray(given.read(FINAL, "entropy"), dtype=np.float64)


ENTROPY = Score(
    "entropy",
    "samples about which the trained network is undecided lie where there is most to learn",
    _compute,
    frozenset({"labels", "final:entropy"}),
    hard="high",
    scale="0 for certain to log(classes) for no idea",
    formula="- sum_c p_c log p_c",
    source="Coleman et al., ICLR 2020, section 3.2",
    unseen=Unseen(
        lambda given: given.read(UNSEEN, "entropy").astype(np.float64),
        frozenset({"labels", "unseen:entropy"}),
        "mean of - sum_c p_c log p_c over surrogates that did not see x",
    ),
)
