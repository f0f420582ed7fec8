"""`moso-adjoint`: Definition 1 to first order, by reverse-mode differentiation of the training run.

Believes what Definition 1 says: a sample is worth the amount by which its presence in training lowers the risk. The
only assumption is that training is differentiable: every update of the surrogate is differentiated as it was taken,
from the last to the first (`moso.adjoint`). With `dR` the first-order change of the risk of all samples when the
sample's loss has weight 0 in all its batches, and `dl` the change of the sample's own loss:

    M(z) = dR(z)                              a validation risk; or the training risk without probes
    M(z) = (N dR(z) - dl(z)) / (N - 1)        the training risk of all other samples, `dl` from random probes

Keep: high. Hard: low. The score has the units and the sign of Definition 1. It agrees with exact leave-one-out where
training is stable (docs/adjoint.md says where), at the cost of about five more trainings of every surrogate.

Source: the derivative of Definition 1 of Tan et al., NeurIPS 2023. Reverse-mode differentiation of training: Maclaurin
et al., ICML 2015; for the influence of samples: Hara et al., NeurIPS 2019.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence_kinds.training_adjoint import ADJOINT
from moso.scores.score import Score, ScoreInput


def moso_adjoint(given: ScoreInput) -> NDArray[np.float64]:
    """Compute the score of every sample, partition by partition; shape ``[samples]``."""
    scores = np.full(len(given.keys), np.nan)
    for positions, terms in zip(given.partitions, given.read(ADJOINT), strict=True):
        scores[positions] = terms.scores()
    return scores


MOSO_ADJOINT = Score(
    "moso-adjoint",
    "Definition 1 to first order: the derivative of the whole training run by the sample's loss weight",
    moso_adjoint,
    frozenset({"adjoint"}),
    hard="low",
    scale="a change of risk to first order, in the units of Definition 1",
    formula="sum_t u_t . (G - g) / (B - 1), u_t from lambda_t = (d step_t / d state)^T lambda_{t+1}",
    source="Tan et al., NeurIPS 2023, Definition 1; Hara et al., NeurIPS 2019",
    no_unseen="a sample that was not trained on has no effect to differentiate",
)
