"""`memorization`: how much more often networks are right about a sample that they were trained on.

Believes that a sample which is only predicted by networks that have seen it stands for something that no other sample
shows, so that it cannot be spared. With the networks trained with the sample (w) and without it (v):

    mem(z) = mean over w of [w is right about z] - mean over v of [v is right about z]         Equation 1 of the source

`memorization.subsets = 0` takes the I surrogates of the run, of which 1 was trained with the sample and I - 1 were
trained without: a coarse score for nothing. `--memorization-subsets R` trains R networks on random subsets of 70 % of
the data (the source trains 2,000), 0.7 R with the sample and 0.3 R without it. The standard error is recorded with the
score: with s^2 the variance of right and wrong among the networks of one side,

    error(z)^2 = s_w^2 / n_w + s_v^2 / n_v

Scale: -1 to 1; 1 if networks are right exactly if they have seen the sample. Keep: high. Hard: high.
Source: Feldman & Zhang, What Neural Networks Memorize and Why, NeurIPS 2020; kept high as in Sorscher et al., 2022.
"""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.evidence_kinds.subset_trainings import LEAST_SUBSETS, SUBSETS
from moso.evidence_kinds.surrogate_outputs import SEEN, UNSEEN
from moso.scores.score import Score, ScoreInput
from moso.settings import Settings


class MemorizationSettings(Settings):
    """Settings of `memorization`: the networks that are asked."""

    subsets: int = Field(
        0, ge=0, description=f"random subsets to train networks on, {LEAST_SUBSETS} or more; 0 asks the surrogates"
    )

    def needs(self) -> frozenset[str]:
        """Return the answers that these networks leave."""
        return frozenset({SUBSETS.name} if self.subsets else {"seen:correct", "unseen:correct"})


def _compute(given: ScoreInput, settings: MemorizationSettings) -> NDArray[np.float64]:
    if settings.subsets:
        return given.read(SUBSETS).difference().estimate
    return given.read(SEEN, "correct").astype(np.float64) - given.read(UNSEEN, "correct")


MEMORIZATION = Score(
    "memorization",
    "a sample that only networks that have seen it get right stands for something no other sample shows",
    _compute,
    frozenset({"labels"}),
    hard="high",
    scale="-1 to 1; 1 for right if and only if the network has seen the sample",
    formula="mean correctness with z - mean correctness without z",
    source="Feldman & Zhang, NeurIPS 2020, Equation 1",
    settings=MemorizationSettings,
    no_unseen="it compares networks that saw the sample with networks that did not already",
)
