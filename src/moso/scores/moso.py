"""`moso`: Proposition 1.1 to the letter.

Believes that a sample is worth keeping if a step along its gradient lowers the risk of all the others, at
all stages of training. With `N` and `T` of the partition's own run, `K` sampled steps and the leave-one-out
mean gradient expressed through the two stored terms:

    a_t(z) = grad L(S\\z, w_t) . g_z = (N (G . g_z) - |g_z|^2) / (N - 1)
    M(z)   = T/N * 1/K * sum_k eta_{t_k} a_{t_k}(z)                                        (paper)
    M_c(z) = T/(N-1) * 1/K * sum_k eta_{t_k} (a_{t_k}(z) - grad L(S\\z, w_{t_k}) . G)      (centred)

Where the user chose another risk R than that of the training samples, `a_t(z) = grad R(w_t) . g_z`.

The centred form is the first-order expansion before the paper drops a term that is the same for all samples
up to O(1/N): it ranks alike inside a partition and differs in sign. Keep: high. Hard: low. The ranking carries the
meaning, not the sign. `eta_t a_t` falls by a factor of 10 to 30 over a run, so this average is in effect the
score of the first stage; `moso-standardised` and `moso-rank` use all stages.

Source: Tan et al., Data Pruning via Moving-one-Sample-out, NeurIPS 2023, Definition 1 and Proposition 1.1.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from moso.columns import empty_column
from moso.evidence import PartitionTerms, StepTerms
from moso.evidence_kinds.step_terms import TERMS
from moso.scores.score import Form, Score, ScoreInput


def agreement(terms: StepTerms, form: Form = "paper") -> NDArray[np.float64]:
    """`eta_t a_t(z)` of one step, `[samples]`; every parameter group takes its own rate.

    >>> terms = StepTerms(1, (0.1,), np.array([[2.0, 4.0]]), np.array([[1.0, 9.0]]))
    >>> agreement(terms)  # 0.1 * (2 * dot - squared_norm) / 1
    array([ 0.3, -0.1])
    """
    N = terms.samples
    rates = np.array(terms.learning_rates)[:, None]
    if not terms.own_risk:
        # Another risk leaves no sample out, and its gradient along G is the mean of that along every g_z.
        a = terms.dot - (terms.dot.mean(axis=1, keepdims=True) if form == "centred" else 0.0)
    else:
        # In place: there can be more samples than memory has room for copies of.
        a = N * terms.dot
        a -= terms.squared_norm
        a /= N - 1
        if form == "centred":
            # grad L(S\\z) . G = (N |G|^2 - G . g_z) / (N - 1), and |G|^2 is the mean of G . g_z.
            a -= (N * terms.dot.mean(axis=1, keepdims=True) - terms.dot) / (N - 1)
    a *= rates
    result: NDArray[np.float64] = a[0] if len(a) == 1 else a.sum(axis=0)
    return result


def moso_score(terms: PartitionTerms, form: Form = "paper") -> NDArray[np.float64]:
    """The score of every sample of a partition, `[samples]`."""
    T, N = terms.total_steps, terms.samples
    total = agreement(terms.steps[0], form)
    for step in terms.steps[1:]:
        total += agreement(step, form)
    total /= len(terms.steps)
    total *= T / N if form == "paper" else T / (N - 1)
    return total


def per_partition(
    of: Callable[[PartitionTerms, Form], NDArray[np.float64]],
) -> Callable[[ScoreInput], NDArray[np.float64]]:
    """A score that is computed inside each partition, for all samples: merged by position."""

    def compute(given: ScoreInput) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = empty_column(len(given.keys), np.float64)
        scores.fill(np.nan)
        for positions, terms in zip(given.partitions, given.read(TERMS), strict=True):
            scores[positions] = of(terms, given.form)
        return scores

    return compute


MOSO = Score(
    "moso",
    "Proposition 1.1: a step along the sample's gradient lowers the risk of all the others",
    per_partition(moso_score),
    frozenset({"terms"}),
    hard="low",
    scale="a change of risk to first order; the ranking carries the meaning",
    formula="T/N 1/K sum_k eta_k (N G.g - |g|^2) / (N - 1)",
    source="Tan et al., NeurIPS 2023, Proposition 1.1",
)
