"""`ddd`: dichotomous data difficulty, whether several networks agree on being right or wrong.

Believes that samples which every network gets right are trivial, that samples which every network gets wrong are
impossible (ambiguous or mislabelled), and that training learns from those in between. With k of m networks right:

    DDD(z) = +1 (trivial) if k = m,   -1 (impossible) if k = 0,   0 otherwise            section 3 of the source

    stored = [0 < k < m] + k / (m + 1)

The middle is kept first, as the MoSo paper does it. Ties are broken by mean accuracy k / m, so that among the rest
trivial samples come before impossible ones; remaining ties are broken by id.

The networks are the `--initialisations` networks trained on all data, asked about that data at the early epoch, before
they know it by heart (the source asks networks about a validation set that they did not see). With `--out-of-sample`
they are the I - 1 surrogates that did not see the sample, at the end of training.

Scale: 0 (impossible), below 1 (trivial), 1 to 2 (in between). Keep: high. Hard: low.
Source: Meding et al., Trivial or Impossible: dichotomous data difficulty masks model differences, ICLR 2022.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence_kinds.early_training import EARLY_ANSWERS
from moso.evidence_kinds.surrogate_outputs import UNSEEN
from moso.scores.score import Score, ScoreInput, Unseen


def ddd_score(right: NDArray[np.floating], networks: int) -> NDArray[np.float64]:
    """Compute the stored score from the share of networks that are right.

    Args:
        right: Mean correctness of each sample, shape ``[samples]``.
        networks: Number of networks.

    Example:
        >>> ddd_score(np.array([0.0, 0.5, 1.0]), networks=2).round(3).tolist()
        [0.0, 1.333, 0.667]
    """
    count = np.rint(np.asarray(right, dtype=np.float64) * networks)
    return np.asarray(((count > 0) & (count < networks)) + count / (networks + 1))


def _compute(given: ScoreInput) -> NDArray[np.float64]:
    answers = given.read(EARLY_ANSWERS)
    return ddd_score(answers.mean(axis=0), len(answers))


DDD = Score(
    "ddd",
    "what some networks get right and others wrong is neither trivial nor impossible",
    _compute,
    frozenset({"labels", "early-answers"}),
    hard="low",
    scale="0 for impossible, below 1 for trivial, 1 to 2 in between, by mean accuracy",
    formula="[0 < k < m] + k / (m + 1), k of m networks right",
    source="Meding et al., ICLR 2022, section 3; the middle kept as in Tan et al., NeurIPS 2023",
    unseen=Unseen(
        lambda given: ddd_score(given.read(UNSEEN, "correct"), len(given.partitions) - 1),
        frozenset({"labels", "unseen:correct"}),
        "[0 < k < m] + k / (m + 1), k of the m surrogates that did not see z right",
    ),
)
