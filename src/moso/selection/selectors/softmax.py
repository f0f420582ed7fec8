"""`softmax`: draw samples with chances that grow with their score.

Believes the score, but not to the sample: high scores are likelier to stay, low ones not excluded. Without
replacement, each draw in proportion to the weights of what is left:

    weight(z) = exp(score(z) / temperature)

The temperature is in standard deviations of the scores (`unit = "spread"`), so that it means the same for every
score, or in the score's own unit. Towards 0 it is `top`, towards infinity `random`. The draw is a Gumbel number a
sample added to score / temperature, and the highest sums stay. O(N log N).

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
    """How strongly scores decide."""

    temperature: float = Field(1.0, gt=0, description="how far scores lie apart before they matter")
    unit: Literal["spread", "score"] = Field(
        "spread", description="the temperature's unit: standard deviations, or the score's own"
    )


def softmax(problem: Problem, settings: SoftmaxSettings) -> NDArray[np.int64]:
    """`budget` samples, drawn by score."""
    scores = problem.finite_scores("softmax")
    spread = scores.std() if settings.unit == "spread" else 1.0
    # All scores equal: every temperature says the same.
    logits = (scores - scores.max()) / (settings.temperature * spread) if spread > 0 else np.zeros(len(scores))
    return weighted_order(logits, problem.keys, problem.seed, "softmax")[: problem.budget]
