"""`dyn-unc`: the variation of the label's probability over windows of epochs (Dynamic Uncertainty).

Believes that samples with a changing prediction are neither trivial nor impossible to learn, and are most informative.
With p_k the probability of the label in epoch k of K, recorded when the sample is in a training batch, and windows of J
epochs:

    U_k(x) = sqrt( 1/(J-1) * sum_{j=0}^{J-1} (p_{k+j} - mean of the window)^2 )       Equation 1 of the source
    U(x)   = 1/(K-J) * sum_{k=0}^{K-J-1} U_k(x)                                       Equation 2 of the source

Equation 2 and the authors' code omit the last window. J = 10 as in the source, or half of the epochs if training is
shorter than two windows.

Scale: a standard deviation of probabilities, 0 to about 0.5. Keep: high. Hard: neither end (easy and hard samples both
have low scores).
Source: He et al., Large-scale Dataset Pruning with Dynamic Uncertainty, CVPR 2024 workshops.
"""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.evidence_kinds.training_dynamics import DYNAMICS
from moso.scores.dynamics.windows import mean_over_windows, over_samples
from moso.scores.score import Score, ScoreInput
from moso.settings import Settings


class DynUncSettings(Settings):
    """Settings of `dyn-unc`: length of a window."""

    window: int = Field(10, ge=2, description="epochs of a window (the paper's J)")


def dynamic_uncertainty(probability: NDArray[np.float64], window: int = 10) -> NDArray[np.float64]:
    """Compute the score of each sample, shape ``[samples]``.

    Args:
        probability: Probability of the label in each epoch, shape ``[epochs, samples]``.
        window: Epochs per window; shortened to half of the epochs if there are fewer than two windows.

    Example:
        >>> dynamic_uncertainty(np.array([[0.0, 0.5], [1.0, 0.5], [0.0, 0.5]]), window=2).round(4)
        array([0.7071, 0.    ])
    """
    return mean_over_windows(probability, window, lambda part: part.std(axis=0, ddof=1), with_last=False)


def _compute(given: ScoreInput, settings: DynUncSettings) -> NDArray[np.float64]:
    return over_samples(
        given.read(DYNAMICS).column("probability"), lambda rows: dynamic_uncertainty(rows, settings.window)
    )


DYN_UNC = Score(
    "dyn-unc",
    "samples whose prediction keeps changing are neither trivial nor hopeless",
    _compute,
    frozenset({"labels", "dynamics:probability"}),
    scale="the mean standard deviation of the label's probability in a window of epochs",
    formula="mean over windows of the standard deviation of p_y",
    source="He et al., CVPR 2024 workshops, Equations 1 and 2",
    settings=DynUncSettings,
    least_epochs=2,
    no_unseen="it reads how a sample fares from epoch to epoch while it is trained on",
)
