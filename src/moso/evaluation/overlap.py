"""Similarity of methods: overlap of the kept samples, and rank correlation of the scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moso import errors


@dataclass(frozen=True)
class Likeness:
    """A symmetric table of one number per pair of names, shape ``[names, names]``."""

    names: tuple[str, ...]
    values: NDArray[np.float64]

    def pairs(self) -> list[tuple[str, str, float]]:
        """Return every pair of different names once, most similar first; pairs with NaN are left out.

        Example:
            >>> Likeness(("a", "b"), np.array([[1.0, 0.25], [0.25, 1.0]])).pairs()
            [('a', 'b', 0.25)]
        """
        rows, columns = np.triu_indices(len(self.names), 1)
        found = [
            (self.names[row], self.names[column], float(self.values[row, column]))
            for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
        ]
        return sorted((one for one in found if np.isfinite(one[2])), key=lambda one: -one[2])


def jaccard(kept: Mapping[str, NDArray[np.bool_]]) -> Likeness:
    """Compute the Jaccard index of every two selections: samples kept by both over samples kept by either.

    Args:
        kept: One mask ``[samples]`` per selection, True for kept samples.

    Example:
        >>> jaccard({"a": np.array([True, True, False]), "b": np.array([False, True, True])}).values[0, 1].round(3)
        np.float64(0.333)
    """
    names = tuple(kept)
    masks = np.stack([np.asarray(kept[name], dtype=bool) for name in names])
    sizes = masks.sum(axis=1)
    values = np.ones((len(names), len(names)))
    for number, mask in enumerate(masks):
        common = masks[:, mask].sum(axis=1)
        # The index of two empty selections is defined as 1.
        either = np.maximum(sizes + sizes[number] - common, 1)
        values[number] = np.where(sizes + sizes[number] == 0, 1.0, common / either)
    return Likeness(names, values)


def jaccard_by_chance(share: float) -> float:
    """Return the expected Jaccard index of two independent random selections that keep this share of many samples.

    Example:
        >>> round(jaccard_by_chance(0.5), 3)
        0.333
    """
    return share / (2 - share)


def rank_correlations(scores: Mapping[str, NDArray[np.float64]]) -> Likeness:
    """Compute Spearman's rank correlation of every two scores; NaN for a constant score.

    Args:
        scores: One array ``[samples]`` per score, without NaN.

    Example:
        >>> rank_correlations({"a": np.arange(4.0), "b": -np.arange(4.0) ** 3}).values.round(6)
        array([[ 1., -1.],
               [-1.,  1.]])
    """
    from scipy.stats import rankdata  # imported here: it takes half a second

    names = tuple(scores)
    ranks = rankdata(np.stack([scores[name] for name in names]), axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(ranks, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = (ranks @ ranks.T) / np.outer(norms, norms)
    values[np.arange(len(names)), np.arange(len(names))] = np.where(norms > 0, 1.0, np.nan)
    return Likeness(names, np.clip(values, -1.0, 1.0))


def mean_likeness(tables: Sequence[Likeness]) -> Likeness:
    """Return the mean of several tables (one per seed) of the same names.

    Raises:
        NothingToMeasure: There are no tables, or their names differ.

    Example:
        >>> one, other = (Likeness(("a",), np.array([[value]])) for value in (0.0, 1.0))
        >>> mean_likeness([one, other]).values
        array([[0.5]])
    """
    if not tables or any(table.names != tables[0].names for table in tables):
        raise errors.NothingToMeasure("tables of different names have no mean")
    return Likeness(tables[0].names, np.asarray(np.mean([table.values for table in tables], axis=0)))
