"""`beta`: draw samples by score, with more weight on easy samples at high ratios (DUAL's ratio-adaptive sampling).

Believes that the most uncertain samples are most informative, but that a small subset needs easy samples too. With p(z)
the mean probability of the sample's label during training, r the share removed, and mu the mean of p over the `anchors`
highest scores:

    beta  = concentration * (1 - mu) * (1 - r ** exponent)
    alpha = concentration + 1 - beta
    weight(z) = Beta(p(z); alpha, beta) * score(z)                 drawn without replacement

With `weight = "constant"` the score is left out of the weight and only places the density (through mu); beside the
draw above, method `dual-constant` tells what the score adds.

At small r the density's mode (alpha - 1) / (alpha + beta - 2) is near mu; as r grows, the mode moves to 1, the easy
end. Weights must not be negative: if there are negative scores, all scores are shifted so that the lowest is 0.
O(N log N).

Source: Cho et al., Lightweight Dataset Pruning without Full Training via Example Difficulty and Prediction
Uncertainty, ICML 2025; the formula and the defaults (15, 4, 10 anchors) are those of the authors' code for CIFAR.
"""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import betaln, xlog1py, xlogy

from moso.selection.orders import best_first, weighted_order
from moso.selection.problem import Problem, lacking
from moso.settings import Settings


class BetaSettings(Settings):
    """Settings of `beta`: the shape of the Beta density, and whether scores count beside it."""

    later: ClassVar[frozenset[str]] = frozenset({"weight"})

    concentration: float = Field(15.0, gt=0, description="how narrow the density is (the paper's C)")
    exponent: float = Field(
        4.0, gt=0, description="how late it moves to easy samples as more is removed (the paper's c_D)"
    )
    anchors: int = Field(10, ge=1, description="highest scores whose mean probability places the density")
    weight: Literal["score", "constant"] = Field(
        "score", description="what multiplies the density: the score, or nothing"
    )


def beta(problem: Problem, settings: BetaSettings) -> NDArray[np.int64]:
    """Return `budget` positions, drawn by score times the Beta density of the label's probability."""
    scores = problem.finite_scores("beta")
    if problem.probability is None:
        raise lacking("beta", "probability")
    anchor = float(problem.probability[best_first(scores)[: settings.anchors]].mean())
    shape = beta_parameters(anchor, problem.ratio, settings)
    with np.errstate(divide="ignore"):  # weight 0 has the logarithm -inf, which is drawn last
        log_weights = log_density(problem.probability, *shape)
        if settings.weight == "score":
            log_weights += np.log(scores - min(0.0, float(scores.min())))
    return weighted_order(log_weights, problem.keys, problem.seed, "beta")[: problem.budget]


def beta_parameters(anchor: float, ratio: float, settings: BetaSettings) -> tuple[float, float]:
    """Return alpha and beta of the Beta density.

    Args:
        anchor: Mean probability of the anchors (the formula's mu), in ``[0, 1]``.
        ratio: Share of samples removed, in ``[0, 1)``.
        settings: Concentration and exponent.

    Example:
        >>> beta_parameters(0.4, 0.0, BetaSettings())
        (7.0, 9.0)
    """
    # If the anchors have probability 1, the formula's beta is 0, for which no Beta density exists.
    second = max(settings.concentration * (1 - anchor) * (1 - ratio**settings.exponent), 1e-6)
    return settings.concentration + 1 - second, second


def log_density(values: NDArray[np.float64], alpha: float, beta: float) -> NDArray[np.float64]:
    """Return the logarithm of the Beta density, shape ``[samples]``.

    Values are clipped just below 1, where the density may be infinite.
    """
    inside = np.minimum(values, 1 - 1e-12)
    return np.asarray(xlogy(alpha - 1, inside) + xlog1py(beta - 1, -inside) - betaln(alpha, beta))
