"""`dual`: difficulty times uncertainty (DUAL).

Believes that early in training the most useful samples are those whose label has a low and changing probability. With
p_k the probability of the label in epoch k, recorded when the sample is in a training batch, in windows of J of the
first T epochs:

    DUAL_k(x) = (1 - mean of the window) * standard deviation of the window (with J - 1)
    DUAL(x)   = 1/(T-J+1) * sum_k DUAL_k(x)

T = 30 and J = 10 as in the source's CIFAR experiments. Shorter trainings use all their epochs, and J is half of the
epochs if there are fewer than two windows. (The authors' code multiplies by 10, which does not change the order.) The
source's sampling is the selector `beta`, which also reads the mean of p over the same epochs.

Scale: 0 to about 0.5. Keep: high. Hard: neither end, because the probability of the hardest samples does not change and
their scores are low.
Source: Cho et al., Lightweight Dataset Pruning without Full Training via Example Difficulty and Prediction Uncertainty,
ICML 2025, section 3.
"""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.evidence_kinds.training_dynamics import DYNAMICS
from moso.scores.dynamics.windows import mean_over_windows, over_samples
from moso.scores.score import Score, ScoreInput
from moso.settings import Settings


class DualSettings(Settings):
    """Settings of `dual`: length of a window, and number of epochs used."""

    window: int = Field(10, ge=2, description="epochs of a window (the paper's J)")
    epochs: int = Field(
        30, ge=2, description="first epochs that are looked at, all where there are fewer (the paper's T)"
    )


def dual(probability: NDArray[np.float64], window: int = 10) -> NDArray[np.float64]:
    """Compute the score of each sample, shape ``[samples]``.

    Args:
        probability: Probability of the label in each epoch, shape ``[epochs, samples]``.
        window: Epochs per window; shortened to half of the epochs if there are fewer than two windows.

    Example:
        >>> dual(np.array([[0.0, 0.5], [1.0, 0.5], [0.0, 0.5]]), window=2).round(4)
        array([0.3536, 0.    ])
    """
    return mean_over_windows(probability, window, lambda part: (1 - part.mean(axis=0)) * part.std(axis=0, ddof=1))


def mean_probability(given: ScoreInput, settings: DualSettings) -> NDArray[np.float64]:
    """Return each sample's mean label probability over the epochs used, for the selector `beta`; ``[samples]``."""
    column = given.read(DYNAMICS).column("probability")[: settings.epochs]
    return over_samples(column, lambda rows: rows.mean(axis=0))


def _compute(given: ScoreInput, settings: DualSettings) -> NDArray[np.float64]:
    column = given.read(DYNAMICS).column("probability")[: settings.epochs]
    return over_samples(column, lambda rows: dual(rows, settings.window))


DUAL = Score(
    "dual",
    "early in training, samples whose label is both improbable and moving teach most",
    _compute,
    frozenset({"labels", "dynamics:probability"}),
    scale="(1 - mean) times standard deviation of the label's probability",
    formula="mean over windows of (1 - mean p_y) std p_y",
    source="Cho et al., ICML 2025, section 3",
    settings=DualSettings,
    least_epochs=2,
    no_unseen="it reads how a sample fares from epoch to epoch while it is trained on",
)
