"""`tdds`: the variation over time of a sample's prediction changes (Temporal Dual-Depth Scoring).

Believes that a sample's value is its contribution to the change of its own prediction, and that the contributions of
important samples vary over time. First depth: the change of the whole probability vector from one epoch to the next.
Second depth: the variation of that change inside a window of J epochs. The windows that end by epoch T are summed with
larger weights for newer windows:

    d_t(x) = KL(p_t || p_{t-1}) = sum_c p_t,c (log p_t,c - log p_{t-1,c})
    R_k(x) = | d_t - mean of the window |_2  over the J - 1 changes in the window that starts at k
    TDDS(x) = sum_k beta (1 - beta)^(T-J-k) R_k(x)

The changes are computed during training, so that only the last probability vector is stored. `divergence = "absolute"`
takes |.| inside the sum over classes, as the authors' code does and their formula does not. T = 30, J = 10 and
beta = 0.9 are the example of the authors' code on CIFAR-100; the paper chooses T and J by pruning rate. J is half of
the epochs if training is shorter than two windows.

Scale: nats; only the order is meaningful. Keep: high. Hard: neither end.
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
    """Settings of `tdds`: windows, epochs used, weights, and divergence."""

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
        """Name of the column of the dynamics that holds the changes."""
        return "kl" if self.divergence == "kl" else "kl_absolute"

    def needs(self) -> frozenset[str]:
        """Return the name of the evidence that holds the changes from epoch to epoch."""
        return frozenset({f"dynamics:{self.column}"})


def dual_depth(changes: NDArray[np.float64], window: int = 10, decay: float = 0.9) -> NDArray[np.float64]:
    """Compute the score of each sample.

    Args:
        changes: Change of the prediction since the epoch before, shape ``[epochs, samples]``; the first row is ignored.
        window: Epochs per window; shortened to half of the epochs (at least 3) if there are fewer than two windows.
        decay: Weight of the newest window (the paper's beta), in ``(0, 1)``.

    Returns:
        Scores, shape ``[samples]``.

    Example:
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
    no_unseen="it reads how a sample fares from epoch to epoch while it is trained on",
)
