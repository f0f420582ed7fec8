"""`aum`: the area under the margin.

Believes that the other samples contradict a wrong label, so that the logit of the wrong label stays below the logit of
another class throughout training. On logits z, recorded when the sample is in a training batch:

    M_t(x, y) = z_y - max_{c != y} z_c                                            Equation 1 of the source
    AUM(x, y) = 1/T * sum_t M_t(x, y)                                             Equation 2 of the source

The source removes the lowest scores as mislabelled. (CCS uses the same score as a measure of difficulty; see the method
`ccs`.)

Scale: logits; below 0, another class had the higher logit on average. Keep: high. Hard: low.
Source: Pleiss et al., Identifying Mislabeled Data using the Area Under the Margin Ranking, NeurIPS 2020.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence_kinds.training_dynamics import DYNAMICS
from moso.scores.dynamics.windows import over_samples
from moso.scores.score import Score, ScoreInput


def _compute(given: ScoreInput) -> NDArray[np.float64]:
    return over_samples(given.read(DYNAMICS).column("margin"), lambda margins: margins.mean(axis=0))


AUM = Score(
    "aum",
    "a label whose logit stays below another's all through training is probably wrong",
    _compute,
    frozenset({"labels", "dynamics:margin"}),
    hard="low",
    scale="logits; below 0 another class won on average",
    formula="1/T sum_t (z_y - max_{c != y} z_c)",
    source="Pleiss et al., NeurIPS 2020, Equations 1 and 2",
    no_unseen="it reads how a sample fares from epoch to epoch while it is trained on",
)
