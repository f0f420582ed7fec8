"""`tdds`: how unevenly a sample moves the network's predictions (Temporal Dual-Depth Scoring).

Believes that a sample is worth what it contributes to the change of its own prediction, and that the samples that
matter contribute unevenly over time. First depth: the change of the whole probability vector from one epoch to the
next. Second depth: how that change varies inside a window of J epochs. Windows that end by epoch T are added up, newer
ones counting more:

    d_t(x) = KL(p_t || p_{t-1}) = sum_c p_t,c (log p_t,c - log p_{t-1,c})
    R_k(x) = | d_t - mean of the window |_2  over the J - 1 changes in the window that starts at k
    TDDS(x) = sum_k beta (1 - beta)^(T-J-k) R_k(x)

The changes are streamed while training, so that no probability vector is kept but the last. `divergence = "absolute"`
takes |.| inside the sum over classes, which is what the authors' code does and their formula does not. T = 30, J = 10
and beta = 0.9 are their code's example on CIFAR-100; the paper chooses T and J by pruning rate. J is half of the epochs
where training is shorter than two windows.

Scale: nats; only the order means something. Keep: high. Hard: neither end.
Source: Zhang et al., Spanning Training Progress: Temporal Dual-Depth Scoring (TDDS) for Enhanced Dataset Pruning, CVPR
2024, section 3 and the authors' code.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.evidence_kinds.training_dynamics import DYNAMICS
from moso.scores.dynamics.windows import over_samples, shortened, windows
from moso.scores.score import Score, ScoreInput
from moso.settings import Settings


class TddsSettings(Settings):
    """How much of training is looked at, and how."""

    window: int = Field(10, ge=3, description="epochs of a window (the paper's J)")
    epochs: int = Field(
        30, ge=3, description="first epochs that are looked at, all where there are fewer (the paper's T)"
    )
    decay: float = Field(0.9, gt=0, lt=1, description="weight of the newest window (the paper's beta)")
    divergence: Literal["kl", "absolute"] = Field(
        "kl", description="the paper's divergence, or the code's sum of absolute terms"
    )

    @property
    def column(self) -> str:
        """Which column of the dynamics holds the changes."""
        return "kl" if self.divergence == "kl" else "kl_absolute"

    def needs(self) -> frozenset[str]:
        """The changes from epoch to epoch."""
        return frozenset({f"dynamics:{self.column}"})


def dual_depth(changes: NDArray[np.float64], window: int = 10, decay: float = 0.9) -> NDArray[np.float64]:
    """The score of each sample, from `changes: [epochs, samples]`, whose first row is not looked at.

    >>> dual_depth(np.array([[np.nan], [1.0], [3.0], [3.0]]), window=3, decay=0.5)  # 0.5 * 0 + 0.25 * sqrt(2)
    array([0.35355339])
    """
    length = max(3, shortened(window, len(changes)))
    total = np.zeros(changes.shape[1])
    starts = len(changes) - length + 1
    for start, part in enumerate(windows(changes, length, starts)):
        inside = part[1:]
        uneven = np.linalg.norm(inside - inside.mean(axis=0), axis=0)
        total += decay * (1 - decay) ** (starts - 1 - start) * uneven
    return total


def _compute(given: ScoreInput, settings: TddsSettings) -> NDArray[np.float64]:
    changes = given.read(DYNAMICS).column(settings.column)[: settings.epochs]
    return over_samples(changes, lambda rows: dual_depth(rows, settings.window, settings.decay))


TDDS = Score(
    "tdds",
    "samples that move the network's predictions unevenly over time contribute most",
    _compute,
    frozenset({"labels"}),
    scale="nats; only the order means something",
    formula="sum_k beta (1-beta)^(T-J-k) | KL_t - mean of window k |_2",
    source="Zhang et al., CVPR 2024, section 3",
    settings=TddsSettings,
    least_epochs=3,
)
