"""Registry of scores by name: the built-in scores, and those of installed packages (entry points `moso.scores`)."""

from moso.registry import Registry
from moso.scores.dynamics.aum import AUM
from moso.scores.dynamics.dual import DUAL
from moso.scores.dynamics.dyn_unc import DYN_UNC
from moso.scores.dynamics.forgetting import FORGETTING
from moso.scores.dynamics.tdds import TDDS
from moso.scores.el2n import EL2N
from moso.scores.ensembles.ddd import DDD
from moso.scores.ensembles.memorization import MEMORIZATION
from moso.scores.entropy import ENTROPY
from moso.scores.grand import GRAND
from moso.scores.grand_steps import GRAND_STEPS
from moso.scores.influence import INFLUENCE
from moso.scores.least_confidence import LEAST_CONFIDENCE
from moso.scores.less import LESS
from moso.scores.margin import MARGIN
from moso.scores.moderate import MODERATE
from moso.scores.moso import MOSO
from moso.scores.moso_adjoint import MOSO_ADJOINT
from moso.scores.moso_cross import MOSO_CROSS
from moso.scores.moso_rank import MOSO_RANK
from moso.scores.moso_standardised import MOSO_STANDARDISED
from moso.scores.opt import OPT
from moso.scores.random_score import RANDOM
from moso.scores.score import OUT_OF_SAMPLE, Score
from moso.scores.ssp import SSP
from moso.scores.zcore import ZCORE

SCORES = Registry(
    "score",
    Score,
    "moso.scores",
    (
        MOSO,
        MOSO_STANDARDISED,
        MOSO_RANK,
        MOSO_CROSS,
        MOSO_ADJOINT,
        LESS,
        RANDOM,
        FORGETTING,
        GRAND,
        GRAND_STEPS,
        EL2N,
        OPT,
        SSP,
        ZCORE,
        MODERATE,
        ENTROPY,
        LEAST_CONFIDENCE,
        MARGIN,
        AUM,
        DYN_UNC,
        TDDS,
        DUAL,
        MEMORIZATION,
        DDD,
        INFLUENCE,
    ),
)

scores = SCORES.all


def find_score(name: str) -> Score:
    """Return the score of a name; `NAME-out-of-sample` is the out-of-sample form of the score NAME.

    Raises:
        MosoError: ``unknown-name``; ``method-impossible`` if the score has no out-of-sample form.

    Example:
        >>> sorted(find_score("el2n-out-of-sample").needed())
        ['labels', 'unseen:error_norm']
    """
    if name.endswith(OUT_OF_SAMPLE) and SCORES.find(name) is None:
        return SCORES.get(name.removesuffix(OUT_OF_SAMPLE)).out_of_sample()
    return SCORES.get(name)
