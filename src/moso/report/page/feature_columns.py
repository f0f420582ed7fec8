"""Columns of the page that come from features: the map, near-duplicates, outliers, and matches with the test data.

Nothing is computed before a column is read, so that `moso explore` starts at once and pays for what is looked at.
"""

from functools import cached_property
from importlib.util import find_spec
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso.analysis.feature_map import LANDMARKS, feature_map
from moso.analysis.neighbourhoods import (
    DUPLICATE,
    EXHAUSTIVE,
    FENCE,
    NEIGHBOURS,
    Neighbourhoods,
    matches_across,
    neighbourhoods,
)
from moso.analysis.run_features import RunFeatures
from moso.report.page.page_columns import Column
from moso.report.page.sample_columns import Columns
from moso.selection.neighbours import EXACT

# The sort order of the page by mean distance to the nearest neighbours.
BY_DISTANCE = "distance to neighbours"
# Pairs of a training and a test sample up to which test data is searched for copies of training samples.
_MOST_PAIRS = 2_000_000_000
# Fewer samples have no neighbourhoods.
_FEWEST = 3
_LEVELS = 65_535


def feature_columns(features: RunFeatures | str, count: int) -> tuple[dict[str, Any], Columns]:
    """Return what the page says about features, and their columns; none without features.

    Args:
        features: The features of the run, or why there are none.
        count: Number of training samples.
    """
    if isinstance(features, str):
        return {"missing": features}, {}
    if count < _FEWEST:
        return {"missing": f"A map needs at least {_FEWEST} samples."}, {}
    found = _Found(features)
    about: dict[str, Any] = {"missing": "", "source": features.source, "map": _how_mapped(count), "neighbours": ""}
    columns = {"map": Column("uint16", count, lambda: found.places, 2)}
    if count > EXACT and find_spec("faiss") is None:
        about["neighbours"] = (
            f"Near-duplicates and outliers among more than {EXACT:,} samples are found with faiss, which is not "
            'installed: pip install "moso-prune[neighbours]".'
        )
        return about, columns
    about |= _rules(count)
    columns |= {
        "duplicate-group": Column("uint32", count, lambda: found.neighbourhoods.group),
        "outlier": Column("bits", count, lambda: found.neighbourhoods.outlier),
        f"order/{BY_DISTANCE}": Column("float32", count, lambda: found.neighbourhoods.mean_distance),
    }
    if features.test is not None and count * len(features.test) <= _MOST_PAIRS:
        about["tests"] = len(features.test)
        columns["copied-to-test"] = Column("uint16", count, lambda: found.copies)
    return about, columns


def _how_mapped(count: int) -> str:
    others = "" if count <= LANDMARKS else f" of {LANDMARKS:,} samples; the others lie near their nearest of these"
    return (
        f"t-SNE on principal components{others}. Samples that lie together have similar features; distances between "
        "far groups have no meaning."
    )


def _rules(count: int) -> dict[str, Any]:
    search = "" if count <= EXHAUSTIVE or find_spec("faiss") is None else (
        " The search looks into the nearest cells of an index only, so it may miss a few pairs."
    )  # fmt: skip
    return {
        "duplicate_rule": (
            f"Near-duplicates are at most {DUPLICATE} of the median distance to the nearest neighbour apart, in "
            f"feature space.{search}"
        ),
        "outlier_rule": (
            f"An outlier's mean distance to its {NEIGHBOURS} nearest neighbours is above Q3 + {FENCE} (Q3 - Q1) of "
            "all samples, on a logarithmic scale."
        ),
    }


class _Found:
    """Results that are computed once, on first use, also if several requests ask at the same time."""

    def __init__(self, features: RunFeatures) -> None:
        self.features = features
        self._lock = RLock()

    @property
    def places(self) -> NDArray[np.uint16]:
        """The map, quantised, shape ``[2, samples]``."""
        with self._lock:
            return self._places

    @property
    def neighbourhoods(self) -> Neighbourhoods:
        """Near-duplicates and outliers."""
        with self._lock:
            return self._neighbourhoods

    @property
    def copies(self) -> NDArray[np.int64]:
        """Number of test samples that are near-duplicates of each training sample, at most 65,535."""
        with self._lock:
            return self._copies

    @cached_property
    def _places(self) -> NDArray[np.uint16]:
        return np.rint(feature_map(self.features.train).T * _LEVELS).astype(np.uint16)

    @cached_property
    def _neighbourhoods(self) -> Neighbourhoods:
        return neighbourhoods(self.features.train)

    @cached_property
    def _copies(self) -> NDArray[np.int64]:
        test = self.features.test
        assert test is not None
        near = matches_across(self.features.train, test, self._neighbourhoods.duplicate_within)
        return np.minimum(np.bincount(near[near >= 0], minlength=len(self.features.train)), _LEVELS)
