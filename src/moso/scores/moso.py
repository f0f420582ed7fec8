"""`moso`: Proposition 1.1 to the letter.

Believes that a sample is worth keeping if a step along its gradient lowers the risk of all other samples, at all stages
of training. With `N` samples and `T` steps of the partition's surrogate run, `K` sampled steps and the leave-one-out
mean gradient expressed through the two stored terms:

    a_t(z) = grad L(S\\z, w_t) . g_z = (N (G . g_z) - |g_z|^2) / (N - 1)
    M(z)   = T/N * 1/K * sum_k eta_{t_k} a_{t_k}(z)                                        (paper)
    M_c(z) = T/(N-1) * 1/K * sum_k eta_{t_k} (a_{t_k}(z) - grad L(S\\z, w_{t_k}) . G)      (centred)

If the user chose a risk R other than the training risk, `a_t(z) = grad R(w_t) . g_z`.

The centred form is the first-order expansion before the paper drops a term that is the same for all samples up to
O(1/N): both forms rank the samples of a partition alike and differ in sign. Keep: high. Hard: low. The ranking carries
the meaning, not the sign. `eta_t a_t` falls by a factor of 10 to 30 over a run, so the first stage of training
dominates this average; `moso-standardised` and `moso-rank` weigh all stages alike.

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
    """Compute `eta_t a_t(z)` of one step, each parameter group with its own learning rate.

    Args:
        terms: The stored terms of the step, ``[groups, samples]`` each.
        form: ``"paper"``, or ``"centred"`` to subtract the term that the paper drops.

    Returns:
        One float64 per sample, summed over parameter groups, shape ``[samples]``.

    Example:
        >>> terms = StepTerms(1, (0.1,), np.array([[2.0, 4.0]]), np.array([[1.0, 9.0]]))
        >>> agreement(terms)  # 0.1 * (2 * dot - squared_norm) / 1
        array([ 0.3, -0.1])
    """
    N = terms.samples
    rates = np.array(terms.learning_rates)[:, None]
    if not terms.own_risk:
        # No sample is left out of another risk, and grad R . G is the mean of grad R . g_z over the samples.
        a = terms.dot - (terms.dot.mean(axis=1, keepdims=True) if form == "centred" else 0.0)
    else:
        # In place: the terms of a large data set leave no memory for temporary copies.
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
    """Compute `M(z)` (or `M_c(z)`) for every sample of one partition, shape ``[samples]``."""
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
    """Turn a score of one partition into a score of all samples, merged by position.

    Args:
        of: Maps the terms of a partition and the form of MoSo to one float per sample of the partition.

    Returns:
        A function from `ScoreInput` to float64 ``[samples]``; samples of no partition are NaN.
    """

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
    no_unseen="method 'moso-cross' is MoSo out of sample, by rank",
)
