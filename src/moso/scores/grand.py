"""`grand`: the L2 norm of the per-sample gradient early in training.

Believes that the samples with the largest gradients early in training are those that training needs. With g_t the
gradient of the sample's loss with respect to *all* parameters of the network w_t of one initialisation:

    GraNd_t(x, y) = E_{w_t} | g_t(x, y) |_2                                       Definition 2.1 of the source

The mean is over `--initialisations` networks trained up to the early epoch, as for `el2n`. The score is not computed at
initialisation: the source's results for t = 0 do not reproduce (arXiv 2303.14753).

Scale: a gradient norm, in units of the loss per unit of the parameters. Keep: high. Hard: high.
Source: Paul, Ganguli & Dziugaite, Deep Learning on a Data Diet, NeurIPS 2021.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence_kinds.early_training import EARLY_NORMS
from moso.scores.score import Score, ScoreInput


def _compute(given: ScoreInput) -> NDArray[np.float64]:
    return np.asarray(given.read(EARLY_NORMS).mean(axis=0))


GRAND = Score(
    "grand",
    "what pulls hardest on a barely trained network is what training needs",
    _compute,
    frozenset({"early-norms"}),
    hard="high",
    scale="the length of the gradient by all parameters",
    formula="E | g_t(x, y) |_2 over initialisations, t early",
    source="Paul et al., NeurIPS 2021, Definition 2.1",
    no_unseen="gradient norms are measured at networks that were trained on the sample alone",
)
