"""The scores there are, by name: ours, and those of installed packages (entry points `moso.scores`)."""

from moso import plugins
from moso.errors import unknown_name
from moso.scores.dynamics.aum import AUM
from moso.scores.dynamics.dual import DUAL
from moso.scores.dynamics.dyn_unc import DYN_UNC
from moso.scores.dynamics.forgetting import FORGETTING
from moso.scores.dynamics.tdds import TDDS
from moso.scores.el2n import EL2N
from moso.scores.entropy import ENTROPY
from moso.scores.grand import GRAND
from moso.scores.grand_steps import GRAND_STEPS
from moso.scores.least_confidence import LEAST_CONFIDENCE
from moso.scores.margin import MARGIN
from moso.scores.moderate import MODERATE
from moso.scores.moso import MOSO
from moso.scores.moso_adjoint import MOSO_ADJOINT
from moso.scores.moso_rank import MOSO_RANK
from moso.scores.moso_standardised import MOSO_STANDARDISED
from moso.scores.opt import OPT
from moso.scores.random_score import RANDOM
from moso.scores.score import Score
from moso.scores.ssp import SSP

GROUP = "moso.scores"

SCORES = {
    score.name: score
    for score in (
        MOSO,
        MOSO_STANDARDISED,
        MOSO_RANK,
        MOSO_ADJOINT,
        RANDOM,
        FORGETTING,
        GRAND,
        GRAND_STEPS,
        EL2N,
        OPT,
        SSP,
        MODERATE,
        ENTROPY,
        LEAST_CONFIDENCE,
        MARGIN,
        AUM,
        DYN_UNC,
        TDDS,
        DUAL,
    )
}


def scores() -> dict[str, Score]:
    """All scores by name, other packages' included."""
    return {**SCORES, **plugins.everything(GROUP, Score, SCORES)}


def find_score(name: str) -> Score:
    """The score of this name.

    >>> sorted(find_score("aum").needs), find_score("aum").hard
    (['dynamics:margin', 'labels'], 'low')
    """
    if name in SCORES:
        return SCORES[name]
    found = plugins.find(GROUP, name, Score, SCORES)
    if found is None:
        raise unknown_name("score", name, [*SCORES, *plugins.names(GROUP)])
    return found
