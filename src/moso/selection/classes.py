"""Doing a selection class by class: every class is a problem of its own, with its quota as budget."""

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.selection.problem import Problem
from moso.selection.quotas import check_every_class, class_quotas
from moso.settings import Settings

Classes = Literal["together", "balanced", "proportional"]
Choose = Callable[[Problem], NDArray[np.int64]]


_TEXT = "all classes together, or one by one with equal numbers (balanced) or equal shares (proportional)"


class ClassSettings(Settings):
    """Settings of a selector that can go class by class, and by default does not."""

    classes: Classes = Field("together", description=_TEXT)

    def needs(self) -> frozenset[str]:
        """Labels, if it goes class by class."""
        return frozenset() if self.classes == "together" else frozenset({"labels"})


class ClasswiseSettings(ClassSettings):
    """Settings of a selector that goes class by class unless told otherwise."""

    classes: Classes = Field("proportional", description=_TEXT)


def members(labels: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Every class that has samples, and the positions of its samples, ascending.

    >>> [(label, positions.tolist()) for label, positions in members(np.array([2, 0, 2]))]
    [(0, [1]), (2, [0, 2])]
    """
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    ends = np.cumsum(sizes)
    for label in np.flatnonzero(sizes):
        yield int(label), order[ends[label] - sizes[label] : ends[label]]


def per_class(problem: Problem, selector: str, classes: Classes, choose: Choose) -> NDArray[np.int64]:
    """What `choose` keeps of all samples together, or of every class by itself."""
    if classes == "together":
        return choose(problem)
    labels = problem.labels_for(selector)
    sizes = np.bincount(labels)
    check_every_class(selector, sizes, problem.budget)
    quotas = class_quotas(sizes, problem.budget, classes)
    kept = [
        positions[choose(problem.subset(positions, int(quotas[label])))]
        for label, positions in members(labels)
        if quotas[label]
    ]
    return np.concatenate(kept)
