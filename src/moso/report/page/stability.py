"""Stability of the ranking as time steps are added: scores from k of the K recorded steps, against all and each other.

The agreement with all K steps ends at 1, because the k steps are among the K. The agreement of two disjoint sets of k
steps is unbiased: it estimates the agreement with another draw of k time steps. Both are Spearman's correlation inside
each partition, averaged over partitions and over draws of steps.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso.randomness import generator
from moso.report.page.sample_history import agreements, steps_of
from moso.results.reading import Run

DRAWS = 8
# Samples per partition that are compared, drawn by (seed, partition).
SAMPLES = 2_000


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    spread = values.std()
    return np.asarray((values - values.mean()) / (spread if spread > 0 else 1.0))


def _ranked(values: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.stats import rankdata  # imported here: it takes half a second

    return np.asarray(rankdata(values))


# The transformation of each step's terms before each score averages them over steps.
_FORMS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "moso": lambda values: values,
    "moso-standardised": _standardised,
    "moso-rank": _ranked,
}


def stability(run: Run) -> list[dict[str, Any]]:
    """Return one curve per MoSo score that the run has; none if fewer than two steps are recorded."""
    counts = {len(steps) for steps in steps_of(run)}
    names = [name for name in _FORMS if name in run.scores()]
    if len(counts) != 1 or min(counts) < 2 or not names:
        return []
    seed, parts = run.configuration.seed, []
    for part in range(run.configuration.partitions):
        terms = agreements(run, part)
        kept = generator(seed, "stability", part).permutation(terms.shape[1])[:SAMPLES]
        parts.append((terms, np.sort(kept)))
    curves = []
    for name in names:
        # Rank and standardise among all samples of the partition, as the score does, before subsampling.
        rows = [np.stack([_FORMS[name](step) for step in terms])[:, kept] for terms, kept in parts]
        curves.append({"score": name, **stability_curve(rows, seed)})
    return curves


def stability_curve(parts: list[NDArray[np.float64]], seed: int) -> dict[str, list[list[float]]]:
    """Compute the agreement of rankings from k steps, for every k.

    Args:
        parts: Transformed terms of each partition, shape ``[steps, samples]``.
        seed: Seed of the draws of steps.

    Returns:
        Under `with_all` and `disjoint`, one row per k: k, mean, lowest and highest correlation over draws.

    Example:
        >>> noise = np.random.default_rng(0).normal(size=(8, 500))
        >>> curve = stability_curve([noise], seed=0)
        >>> [int(row[0]) for row in curve["disjoint"]], curve["with_all"][-1][1]
        ([1, 2, 3, 4], 1.0)
    """
    steps = len(parts[0])
    found: dict[str, list[list[float]]] = {"with_all": [], "disjoint": []}
    for k in range(1, steps + 1):
        draws = [generator(seed, "stability-steps", k, draw).permutation(steps) for draw in range(DRAWS)]
        whole = [_agreement(parts, order[:k], order) for order in (draws if k < steps else draws[:1])]
        found["with_all"].append(_row(k, whole))
        if 2 * k <= steps:
            found["disjoint"].append(_row(k, [_agreement(parts, order[:k], order[k : 2 * k]) for order in draws]))
    return found


def _agreement(parts: list[NDArray[np.float64]], first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    values = [_spearman(terms[np.sort(first)].mean(axis=0), terms[np.sort(second)].mean(axis=0)) for terms in parts]
    return float(np.mean(values))


def _spearman(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return Spearman's correlation, 0 for a constant column; faster on short columns than `rank_correlations`."""
    ranks = [one - one.mean() for one in (_ranked(first), _ranked(second))]
    norm = float(np.sqrt(np.square(ranks[0]).sum() * np.square(ranks[1]).sum()))
    return float(ranks[0] @ ranks[1]) / norm if norm > 0 else 0.0


def _row(k: int, values: list[float]) -> list[float]:
    return [float(k), *(round(value, 4) for value in (float(np.mean(values)), min(values), max(values)))]
