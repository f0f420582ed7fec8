"""`margin`: the negated gap between the trained network's two most probable classes.

Believes what `entropy` believes, and uses only the two most probable classes. With p the softmax of the trained
reference network, in evaluation mode, and p_(1) >= p_(2) its two largest components:

    stored = - (p_(1) - p_(2))

The source keeps the smallest gaps; the negative sign turns the smallest gaps into the highest scores.

Scale: -1 (certain) to 0 (two classes equally probable). Keep: high. Hard: high.
Source: Scheffer, Decomain & Wrobel, Active Hidden Markov Models for Information Extraction, IDA 2001, as used for
pruning by Guo et al., DeepCore, 2022.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence_kinds.final_outputs import FINAL
from moso.evidence_kinds.surrogate_outputs import UNSEEN
from moso.scores.score import Score, ScoreInput, Unseen


def _compute(given: ScoreInput) -> NDArray[np.float64]:
    return np.asarray(-given.read(FINAL, "gap").astype(np.float64))


MARGIN = Score(
    "margin",
    "samples between two classes lie where there is most to learn",
    _compute,
    frozenset({"labels", "final:gap"}),
    hard="high",
    scale="-1 for certain to 0 for two classes alike",
    formula="- (p_(1) - p_(2))",
    source="Scheffer et al., IDA 2001",
    unseen=Unseen(
        lambda given: -given.read(UNSEEN, "gap").astype(np.float64),
        frozenset({"labels", "unseen:gap"}),
        "mean of - (p_(1) - p_(2)) over surrogates that did not see x",
    ),
)
