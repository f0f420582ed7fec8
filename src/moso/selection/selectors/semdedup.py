"""`semdedup`: near-duplicates go before anything else; the rest is decided by score, or at random.

Believes that of two samples with nearly the same features one teaches nothing, whatever its score. Samples are put into
an order of preference (`stays`), and a sample is a near-duplicate if one that is preferred to it is as similar as
`threshold`:

    m(z) = max { cos(f_z, f_y) : y preferred to z }            near-duplicate:  m(z) >= threshold

    stays = "far":    preferred are samples far from the centre of their cell (the source's: unusual ones stay)
    stays = "near":   samples near the centre
    stays = "score":  samples with a high score

Of every group of copies the preferred one stays. Removed are, until the budget is met, the near-duplicates with the
largest m first, then all others with the lowest scores first. If all scores are equal, as for a method without a score,
the others go at random, by (seed, id). So a larger ratio always keeps part of what a smaller one keeps, also where
near-duplicates are more or fewer than what has to go.

Up to 50,000 samples all pairs are compared and the centre is that of all samples: O(N^2 d) time, O(N) memory beside the
features. Above, k-means (faiss) divides the samples into cells of about 1,024 as in the source, and pairs within a cell
are compared: O(N (1,024 + N / 1,024) d). Exact copies share a cell; a near-duplicate across the border of two cells is
missed. Cells of more than 8,192 samples are divided by distance from their centre. A row of zeros has no direction and
is no duplicate.

Source: Abbas et al., SemDeDup: Data-efficient learning at web-scale through semantic deduplication, 2023 (arXiv
2303.09540). Exact budgets by m, and the score after it, are ours.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.selection.classes import ClassSettings, members, per_class
from moso.selection.feature_rows import Features, Rows
from moso.selection.neighbours import EXACT, LARGEST, nearest_cells
from moso.selection.orders import shuffled
from moso.selection.problem import Problem

_ROWS = 1024
# Cosines in float32: an exact copy comes out this much below 1 at most.
_ROUNDING = 1e-6


class SemDeDupSettings(ClassSettings):
    """Settings of `semdedup`: what counts as a duplicate, and which of them stays."""

    threshold: float = Field(0.95, gt=0, le=1, description="cosine from which on two samples are near-duplicates")
    stays: Literal["far", "near", "score"] = Field(
        "far", description="of near-duplicates, what stays: far from their centre (the source's), near it, or by score"
    )


def semdedup(problem: Problem, settings: SemDeDupSettings) -> NDArray[np.int64]:
    """Return `budget` positions, near-duplicates last."""
    return per_class(problem, "semdedup", settings.classes, lambda part: _last_first(part, settings)[: part.budget])


def _last_first(problem: Problem, settings: SemDeDupSettings) -> NDArray[np.int64]:
    """Return all positions, those that go first at the end."""
    likeness = duplicate_likeness(problem.rows_for("semdedup"), problem.scores, settings.stays)
    is_copy = likeness >= settings.threshold - _ROUNDING
    chance = np.empty(len(problem), dtype=np.int64)
    chance[shuffled(problem.keys, problem.seed, "semdedup")] = np.arange(len(problem))
    return np.lexsort((chance, -problem.scores, np.where(is_copy, likeness, -np.inf)))


def duplicate_likeness(
    features: Features, scores: NDArray[np.float64], stays: str = "far", exact: int = EXACT
) -> NDArray[np.float64]:
    """Return the largest cosine of each sample with one that is preferred to it, shape ``[samples]``.

    Args:
        features: One row per sample.
        scores: One float per sample, for ``stays="score"``.
        stays: What is preferred: ``"far"``, ``"near"`` or ``"score"``.
        exact: Largest number of samples of which all pairs are compared.

    Returns:
        Cosines; -inf for the most preferred sample of its cell.

    Raises:
        PackageMissing: More than `exact` samples, and faiss is not installed.

    Example:
        >>> duplicate_likeness(Features([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]), np.zeros(3)).round(1)
        array([-inf,   0.,   1.])
    """
    found, unit = np.full(len(features), -np.inf), features.scaled()
    largest = LARGEST if len(features) > exact else exact
    for inside in _cells(unit, exact):
        rows = unit.take(inside)
        to_centre = rows @ _direction(rows)
        preference = {"far": to_centre, "near": -to_centre, "score": -scores[inside]}[stays]
        order = np.argsort(preference, kind="stable")
        for piece in _pieces(order, to_centre, largest):
            found[inside[piece]] = _earlier(rows[piece])
    return found


def _cells(unit: Features, exact: int) -> Iterator[NDArray[np.int64]]:
    if len(unit) <= exact:
        yield np.arange(len(unit))
        return
    for _, inside in members(nearest_cells(unit)):
        yield inside


def _pieces(order: NDArray[np.int64], to_centre: Rows, largest: int) -> Iterator[NDArray[np.int64]]:
    """Yield the samples of a cell in the order of preference, in parts of similar distance from the centre."""
    count = -(-len(order) // largest)
    by_distance = np.argsort(to_centre, kind="stable")
    part = np.empty(len(order), dtype=np.int64)
    for number, some in enumerate(np.array_split(by_distance, count)):
        part[some] = number
    for number in range(count):
        yield order[part[order] == number]


def _direction(rows: Rows) -> Rows:
    mean = rows.mean(axis=0, dtype=np.float64)
    length = np.linalg.norm(mean)
    return np.asarray(mean / length if length > 0 else mean, dtype=np.float32)


def _earlier(rows: Rows) -> NDArray[np.float64]:
    """Return the largest product of each row with one before it; -inf for the first."""
    found = np.full(len(rows), -np.inf)
    for start in range(0, len(rows), _ROWS):
        block = rows[start : start + _ROWS]
        products = block @ rows[: start + len(block)].T
        own = products[:, start:]
        own[np.triu_indices(len(block))] = -np.inf
        found[start : start + len(block)] = products.max(axis=1)
    return found
