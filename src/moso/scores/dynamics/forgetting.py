"""`forgetting`: how often a sample was learned and then forgotten again.

Believes that samples which training keeps losing carry what it has to be told again and again, and that those never
forgotten can go. With acc_t in {0, 1} whether the sample is predicted right when training meets it in epoch t, before
the update it takes part in:

    forgetting events = number of t with acc_t > acc_{t+1}                            section 3 of the source

Samples that are never predicted right count as forgotten infinitely often in the source; here, as in its authors'
code, as often as there are epochs, which no other sample can reach.

Scale: a count, from 0 to half the epochs; the number of epochs for never learned. Keep: high. Hard: high.
Source: Toneva et al., An Empirical Study of Example Forgetting during Deep Neural Network Learning, ICLR 2019.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence_kinds.training_dynamics import DYNAMICS
from moso.scores.dynamics.windows import over_samples
from moso.scores.score import Score, ScoreInput


def forgetting_events(correct: NDArray[np.float64]) -> NDArray[np.float64]:
    """Events of each sample, from `correct: [epochs, samples]`.

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
)
