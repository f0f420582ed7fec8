"""`Selector`: a name, the evidence needed, the settings, and the function that chooses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moso.selection.classes import ClassSettings
from moso.selection.greedy_cover import check_size
from moso.selection.kept_positions import Kept, checked
from moso.selection.problem import Problem, lacking
from moso.settings import Option, Settings, options, resolve


@dataclass(frozen=True)
class Selector:
    """A named selector: a function from a `Problem` to `budget` kept positions, with or without weights.

    Attributes:
        choose: Takes a `Problem`, and the resolved settings if `settings` is not None; returns positions, or `Kept`.
        needs: Evidence that is always needed: scores, labels, features, probability, class-error, hard, ...
        settings: The class of the selector's settings; None if it has no settings.
        largest: Most samples that it compares with each other, of a class or of all; None for any number.
    """

    name: str
    description: str
    choose: Callable[..., NDArray[np.int64] | Kept]
    needs: frozenset[str] = frozenset({"scores"})
    settings: type[Settings] | None = None
    largest: int | None = None

    def resolved(self, given: Mapping[str, object]) -> Settings:
        """Validate the given values and return the complete settings.

        Raises:
            MosoError: An unknown name, or a value that is not allowed.
        """
        return resolve(f"selector {self.name!r}", self.settings or Settings, given)

    def fitting(self, given: Mapping[str, object], by_class: bool) -> Settings:
        """Return the complete settings; samples without classes are taken together unless the values say otherwise.

        Raises:
            MosoError: An unknown name, or a value that is not allowed.
        """
        can_be_together = self.settings is not None and issubclass(self.settings, ClassSettings)
        return self.resolved(given if by_class or not can_be_together else {"classes": "together", **given})

    def needed(self, settings: Settings | None = None) -> frozenset[str]:
        """Return the names of all evidence that the selector needs under these settings (by default, its defaults)."""
        return self.needs | (settings or self.resolved({})).needs()

    def options(self) -> list[Option]:
        """Return the selector's settings, each with its default and a sentence of explanation."""
        return options(self.settings or Settings)

    def __call__(self, problem: Problem, settings: Settings) -> Kept:
        """Choose and check the kept samples.

        Returns:
            `problem.budget` positions, none twice, in no particular order, and their weights if there are any.

        Raises:
            ExtensionBroken: `choose` returned a wrong number of positions, one twice, or a weight that is not positive.
        """
        found = self.choose(problem) if self.settings is None else self.choose(problem, settings)
        return checked(found, self.name, len(problem), problem.budget)

    def check_samples(self, settings: Settings, labels: NDArray[np.int64] | None, count: int) -> None:
        """Check that the samples are not more than the selector can compare with each other.

        Args:
            settings: The resolved settings.
            labels: One class number per sample; None without classes.
            count: Number of samples.

        Raises:
            MethodImpossible: A class, or the data where classes are treated together, is too large.
        """
        if self.largest is None:
            return
        if labels is not None and getattr(settings, "classes", "together") != "together":
            count = int(np.bincount(labels).max())
        check_size(self.name, count, self.largest)

    def check(self, settings: Settings, given: frozenset[str]) -> None:
        """Check that all needed evidence is given.

        Args:
            settings: The resolved settings.
            given: Names of the evidence that is there.

        Raises:
            EvidenceMissing: Needed evidence is not given.
        """
        for evidence in sorted(self.needed(settings) - given):
            raise lacking(self.name, evidence)
