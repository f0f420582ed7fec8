"""Class-wise selection: every class is a problem of its own, with its quota as the budget."""

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso.selection.problem import Problem
from moso.selection.quotas import check_every_class, class_quotas
from moso.settings import Settings

Classes = Literal["together", "balanced", "proportional"]


_TEXT = "all classes together, or one by one with equal numbers (balanced) or equal shares (proportional)"


class ClassSettings(Settings):
    """Settings of a selector that treats all classes together by default, and can select class by class."""

    classes: Classes = Field("together", description=_TEXT)

    def needs(self) -> frozenset[str]:
        """Return labels if the selection is class-wise."""
        return frozenset() if self.classes == "together" else frozenset({"labels"})


class ClasswiseSettings(ClassSettings):
    """Settings of a selector that selects class by class by default."""

    classes: Classes = Field("proportional", description=_TEXT)


def members(labels: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield every class that has samples, with the ascending positions of its samples.

    Example:
        >>> [(label, positions.tolist()) for label, positions in members(np.array([2, 0, 2]))]
        [(0, [1]), (2, [0, 2])]
    """
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    ends = np.cumsum(sizes)
    for label in np.flatnonzero(sizes):
        yield int(label), order[ends[label] - sizes[label] : ends[label]]


def class_problems(problem: Problem, selector: str, classes: Classes) -> Iterator[tuple[NDArray[np.int64], Problem]]:
    """Yield the problem of all samples together, or that of every class with a quota.

    Args:
        problem: The problem; a class-wise selection needs its labels.
        selector: Name of the selector, for error messages.
        classes: ``"together"``, or how the budget is divided: ``"balanced"`` or ``"proportional"``.

    Yields:
        Ascending positions of the samples, and their own problem.

    Raises:
        EvidenceMissing: The selection is class-wise and there are no labels.
        BudgetImpossible: The budget is smaller than the number of classes.
    """
    if classes == "together":
        yield np.arange(len(problem)), problem
        return
    labels = problem.labels_for(selector)
    sizes = np.bincount(labels)
    check_every_class(selector, sizes, problem.budget)
    quotas = class_quotas(sizes, problem.budget, classes)
    for label, positions in members(labels):
        if quotas[label]:
            yield positions, problem.subset(positions, int(quotas[label]))


def per_class(
    problem: Problem, selector: str, classes: Classes, choose: Callable[[Problem], NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Apply `choose` to all samples together, or to every class separately; the arguments of `class_problems`.

    Returns:
        Kept positions, `problem.budget` of them.
    """
    return np.concatenate([where[choose(part)] for where, part in class_problems(problem, selector, classes)])
