"""`forgetting`: how often a sample was learned and then forgotten again.

Believes that samples which are repeatedly learned and forgotten are informative, and that samples which are never
forgotten can be removed. With acc_t in {0, 1} whether the sample is predicted correctly when it is in a training batch
of epoch t, before the update with that batch:

    forgetting events = number of t with acc_t > acc_{t+1}                            section 3 of the source

Samples that are never predicted correctly count as forgotten infinitely often in the source. Here, as in the authors'
code, their count is the number of epochs, which no other sample can reach.

Scale: a count, from 0 to half of the epochs; the number of epochs for samples never learned. Keep: high. Hard: high.
Source: Toneva et al., An Empirical Study of Example Forgetting during Deep Neural Network Learning, ICLR 2019.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence_kinds.training_dynamics import DYNAMICS
from moso.scores.dynamics.windows import over_samples
from moso.scores.score import Score, ScoreInput


def forgetting_events(correct: NDArray[np.float64]) -> NDArray[np.float64]:
    """Count the forgetting events of each sample.

    Args:
        correct: 1 if the prediction was correct in that epoch, else 0; shape ``[epochs, samples]``.

    Returns:
        Counts as float64, shape ``[samples]``; the number of epochs for samples that were never correct.

    Example:
        >>> forgetting_events(np.array([[1, 0, 0], [0, 0, 1], [1, 0, 1], [0, 0, 1]]))
        array([2., 4., 0.])
    """
    events = (correct[:-1] > correct[1:]).sum(axis=0)
    return np.where(correct.any(axis=0), events, len(correct)).astype(np.float64)


def _compute(given: ScoreInput) -> NDArray[np.float64]:
    return over_samples(given.read(DYNAMICS).column("correct"), forgetting_events)


FORGETTING = Score(
    "forgetting",
    "samples that training learns and loses again carry what it must be told",
    _compute,
    frozenset({"labels", "dynamics:correct"}),
    hard="high",
    scale="how often it was forgotten; the number of epochs if it was never learned",
    formula="number of epochs t with acc_t > acc_{t+1}",
    source="Toneva et al., ICLR 2019, section 3",
    no_unseen="it reads how a sample fares from epoch to epoch while it is trained on",
)
