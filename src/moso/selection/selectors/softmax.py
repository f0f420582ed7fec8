"""`softmax`: draw samples with probabilities that grow with their score.

Believes the score, but not exactly: high scores are more likely to be kept, low scores are not excluded. Samples are
drawn without replacement, each in proportion to the remaining weights:

    weight(z) = exp(score(z) / temperature)

The temperature is in standard deviations of the scores (`unit = "spread"`), so that it is comparable between scores, or
in the score's own unit. As the temperature goes to 0 the selection becomes `top`, as it goes to infinity `random`. The
draw adds one Gumbel number per sample to score / temperature and keeps the highest sums. O(N log N).

Source: Kool, van Hoof & Welling, Stochastic Beams and Where to Find Them, ICML 2019 (Gumbel top-k).
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.selection.orders import weighted_order
from moso.selection.problem import Problem
from moso.settings import Settings


class SoftmaxSettings(Settings):
    """Settings of `softmax`: temperature and its unit."""

    temperature: float = Field(1.0, gt=0, description="how far scores lie apart before they matter")
    unit: Literal["spread", "score"] = Field(
        "spread", description="the temperature's unit: standard deviations, or the score's own"
    )


def softmax(problem: Problem, settings: SoftmaxSettings) -> NDArray[np.int64]:
    """Return `budget` positions, drawn by score."""
    scores = problem.finite_scores("softmax")
    spread = scores.std() if settings.unit == "spread" else 1.0
    # With equal scores all weights are equal, whatever the temperature; avoids 0 / 0.
    logits = (scores - scores.max()) / (settings.temperature * spread) if spread > 0 else np.zeros(len(scores))
    return weighted_order(logits, problem.keys, problem.seed, "softmax")[: problem.budget]
