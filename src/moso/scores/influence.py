"""`influence`: the influence function of a sample on the risk, at the end of training.

Believes that a sample helps if leaving it out would raise the risk, and that the end of training tells: there the
parameters are at a minimum, and leaving a sample out moves the minimum by the inverse Hessian. With g_z the gradient of
the sample's loss, G the mean gradient over the N samples, H the Hessian of the mean loss with weight decay:

    stored = 1 / (N - 1)  grad R^T  (H + damping)^-1  (g_z - G)

The source's influence is `- grad R^T H^-1 g_z` of adding weight to z; leaving z out has the other sign, and taking the
mean over the N - 1 others instead of dividing by N adds a constant and a factor: the order is the source's. R is the
training risk, or `--risk validation`, as in the source.

`influence.parameters = head` follows the last layer, whose Hessian is exact and positive semidefinite under
cross-entropy; `all` follows all parameters, by conjugate gradients with Hessian-vector products. Where the loss curves
downwards or conjugate gradients do not converge, it is refused, and the damping decides (`influence.damping`).

Scale: a change of risk, in the units of Definition 1. Keep: high. Hard: low.
Source: Koh & Liang, Understanding Black-box Predictions via Influence Functions, ICML 2017, section 2.
"""

import numpy as np
from pydantic import Field

from moso.evidence.second_order.inverse_hessian import DAMPING, ITERATIONS, Scope
from moso.evidence_kinds.risk_influences import RISK_INFLUENCES
from moso.scores.score import Score
from moso.settings import Settings


class InfluenceSettings(Settings):
    """Settings of `influence`; they decide the evidence, which reads them from the configuration."""

    parameters: Scope = Field("head", description="parameters whose change is followed: the last layer's, or all")
    damping: float = Field(DAMPING, ge=0, description="added to the diagonal of the Hessian, besides the weight decay")
    iterations: int = Field(ITERATIONS, ge=1, description="most iterations of conjugate gradients")


INFLUENCE = Score(
    "influence",
    "leaving a helpful sample out would move the minimum of training to a higher risk",
    lambda given, _: np.asarray(given.read(RISK_INFLUENCES), dtype=np.float64),
    frozenset({"risk-influences"}),
    hard="low",
    scale="a change of risk to first order, in the units of Definition 1",
    formula="1 / (N - 1) grad R^T (H + damping)^-1 (g - G)",
    source="Koh & Liang, ICML 2017, section 2",
    settings=InfluenceSettings,
    no_unseen="a sample that was not trained on has nothing to be left out of",
)
