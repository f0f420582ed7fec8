"""`el2n`: the L2 norm of the prediction error early in training.

Believes that the samples with the largest error early in training are those that training needs. With p the softmax of
the network w_t of one initialisation, after a few epochs and in evaluation mode:

    EL2N(x, y) = E_{w_t} | p(w_t, x) - onehot(y) |_2                              Definition 2.3 of the source

The mean is over `--initialisations` networks, each trained from its own initialisation on the whole data set up to the
early epoch (`--early-epochs`, by default a tenth of training; the source uses epoch 20 of 200 and averages 10
networks). The number of networks is recorded with the score.

Scale: 0 (certain and right) to 1.41 (certain and wrong). Keep: high. Hard: high.
Source: Paul, Ganguli & Dziugaite, Deep Learning on a Data Diet, NeurIPS 2021.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence_kinds.early_training import EARLY_ERRORS
from moso.evidence_kinds.surrogate_outputs import UNSEEN
from moso.scores.score import Score, ScoreInput, Unseen


def _compute(given: ScoreInput) -> NDArray[np.float64]:
    return np.asarray(given.read(EARLY_ERRORS).mean(axis=0, dtype=np.float64))


EL2N = Score(
    "el2n",
    "what a barely trained network gets most wrong is what training needs",
    _compute,
    frozenset({"labels", "early-errors"}),
    hard="high",
    scale="0 for certain and right to 1.41 for certain and wrong",
    formula="E | p(w_t, x) - onehot(y) |_2 over initialisations, t early",
    source="Paul et al., NeurIPS 2021, Definition 2.3",
    unseen=Unseen(
        lambda given: given.read(UNSEEN, "error_norm").astype(np.float64),
        frozenset({"labels", "unseen:error_norm"}),
        "mean of | p(w_T, x) - onehot(y) |_2 over surrogates that did not see x",
    ),
)
