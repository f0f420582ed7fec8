"""`opt`: how far removing a sample moves the network's parameters (OPT).

Believes that a sample is redundant if training without the sample gives nearly the same network. To first order around
the end of training, with g_z the gradient of the sample's loss and H the Hessian of the mean loss over the N samples,

    s_z = (w without z) - w = 1/N H^-1 g_z

Removing a set of samples moves the parameters by the sum of the members' s_z; `selection/selectors/opt_selection.py`
searches for a set with a small sum. The score of a single sample is |s_z|.

`evidence/second_order/influences.py` computes the influences s_z.

Scale: a distance between parameters. Keep: high. Hard: high.
Source: Yang et al., Dataset Pruning: Reducing Training Data by Examining Generalization Influence, ICLR 2023, after
Koh & Liang, Understanding Black-box Predictions via Influence Functions, ICML 2017. The projection, the choice of the
last layer and the damping are ours.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence_kinds.parameter_influences import INFLUENCES
from moso.scores.score import Score

_ROWS = 4096  # samples at a time


def opt_scores(influences: NDArray[np.float32]) -> NDArray[np.float64]:
    """Compute how far removing each sample moves the parameters.

    Args:
        influences: One influence vector s_z per sample, shape ``[samples, dimension]``; may be a memory map.

    Returns:
        Norms |s_z|, shape ``[samples]``; high means keep.

    Example:
        >>> opt_scores(np.array([[3.0, 4.0]], dtype=np.float32))
        array([5.])
    """
    return np.concatenate(
        [
            np.linalg.norm(influences[start : start + _ROWS].astype(np.float64), axis=1)
            for start in range(0, len(influences), _ROWS)
        ]
    )


OPT = Score(
    "opt",
    "a sample without which the network would be nearly the same is redundant",
    lambda given: opt_scores(given.read(INFLUENCES)),
    frozenset({"influences"}),
    hard="high",
    scale="a distance between parameters",
    formula="| 1/N H^-1 g |_2 at the end of training",
    source="Yang et al., ICLR 2023; a sample by itself, its selector `opt` looks at sets",
)
