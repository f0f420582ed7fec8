"""`least-confidence`: one minus the probability of the trained network's predicted class.

Believes what `entropy` believes, and uses only the most probable class. With p the softmax of the trained reference
network, in evaluation mode:

    f_confidence(x) = 1 - max_c p_c

Scale: 0 (certain) to 1 - 1/classes (uniform prediction). Keep: high. Hard: high.
Source: Coleman et al., Selection via Proxy: Efficient Data Selection for Deep Learning, ICLR 2020, section 3.2.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence_kinds.final_outputs import FINAL
from moso.evidence_kinds.surrogate_outputs import UNSEEN
from moso.scores.score import Score, ScoreInput, Unseen


def _compute(given: ScoreInput) -> NDArray[np.float64]:
    return np.asarray(1.0 - given.read(FINAL, "confidence").astype(np.float64))


LEAST_CONFIDENCE = Score(
    "least-confidence",
    "samples whose likeliest class is unlikely lie where there is most to learn",
    _compute,
    frozenset({"labels", "final:confidence"}),
    hard="high",
    scale="0 for certain to 1 - 1/classes for no idea",
    formula="1 - max_c p_c",
    source="Coleman et al., ICLR 2020, section 3.2",
    unseen=Unseen(
        lambda given: 1.0 - given.read(UNSEEN, "confidence").astype(np.float64),
        frozenset({"labels", "unseen:confidence"}),
        "mean of 1 - max_c p_c over surrogates that did not see x",
    ),
)
