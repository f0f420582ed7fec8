"""`select`: scores in, the sorted positions of what is kept out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso.errors import MosoError, unknown_name
from moso.selection.balanced import balanced
from moso.selection.bottom import bottom
from moso.selection.budget import kept_count
from moso.selection.median import median
from moso.selection.problem import Problem
from moso.selection.proportional import proportional
from moso.selection.random import random
from moso.selection.top import top


@dataclass(frozen=True)
class Selector:
    """A named selector: a `Problem` in, `budget` positions out."""

    name: str
    description: str
    choose: Callable[[Problem], NDArray[np.int64]]


SELECTORS = {
    selector.name: selector
    for selector in (
        Selector("top", "the highest scores overall", top),
        Selector("bottom", "the lowest scores overall, as a control", bottom),
        Selector("balanced", "the highest scores of each class, equally many of each", balanced),
        Selector("proportional", "the highest scores of each class, the same share of each", proportional),
        Selector("median", "the scores nearest to the median", median),
        Selector("random", "any samples, whatever their scores", random),
    )
}


def find_selector(name: str) -> Selector:
    """The selector of this name."""
    if name not in SELECTORS:
        raise unknown_name("selector", name, SELECTORS)
    return SELECTORS[name]


def select(
    scores: Any,
    *,
    ratio: float,
    labels: Any = None,
    selector: str | Selector = "balanced",
    seed: int = 0,
    ids: Sequence[Any] | NDArray[Any] | None = None,
) -> NDArray[np.int64]:
    """The positions that stay when the share `ratio` is removed, ascending.

    `scores` are anybody's, one a sample, high means keep. Without `ids` ties are broken by position.

    >>> select([0.1, 0.9, 0.5, 0.7], ratio=0.5, selector="top")
    array([1, 3])
    >>> select([0.1, 0.9, 0.5, 0.7], ratio=0.5, labels=[0, 1, 0, 1])
    array([1, 2])
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0:
        raise MosoError(f"scores must be one number a sample, not of shape {values.shape}")
    if np.isnan(values).any():
        raise MosoError(f"the score of sample {int(np.argmax(np.isnan(values)))} is NaN; every sample needs a score")
    chosen = find_selector(selector) if isinstance(selector, str) else selector
    # Any labels do, names too: selectors see them renumbered without gaps.
    classes = None if labels is None else np.unique(np.asarray(labels), return_inverse=True)[1].astype(np.int64)
    for name, column in (("labels", classes), ("ids", ids)):
        if column is not None and len(column) != len(values):
            raise MosoError(f"there are {len(values)} scores but {len(column)} {name}")
    budget = kept_count(len(values), ratio)
    kept = chosen.choose(Problem(values, budget, _id_ranks(ids, len(values)), classes, seed))
    if len(kept) != budget or len(np.unique(kept)) != budget:
        raise MosoError(f"selector {chosen.name!r} kept {len(np.unique(kept))} samples where {budget} were to stay")
    return np.sort(kept)


def _id_ranks(ids: Sequence[Any] | NDArray[Any] | None, count: int) -> NDArray[np.int64]:
    if ids is None:
        return np.arange(count)
    unique, ranks = np.unique(np.asarray(ids), return_inverse=True)
    if len(unique) != count:
        raise MosoError(f"ids must be unique, but {count} samples have only {len(unique)} different ids")
    return ranks.astype(np.int64)
