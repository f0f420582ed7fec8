"""`Selector`: a name, the evidence needed, the settings, and the function that chooses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.selection.classes import ClassSettings
from moso.selection.problem import Problem, lacking
from moso.settings import Option, Settings, options, resolve


@dataclass(frozen=True)
class Selector:
    """A named selector: a function from a `Problem` to `budget` kept positions.

    Attributes:
        choose: Takes a `Problem`, and the resolved settings if `settings` is not None.
        needs: Evidence that is always needed: scores, labels, features, probability, class-error, hard, ...
        settings: The class of the selector's settings; None if it has no settings.
    """

    name: str
    description: str
    choose: Callable[..., NDArray[np.int64]]
    needs: frozenset[str] = frozenset({"scores"})
    settings: type[Settings] | None = None

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

    def __call__(self, problem: Problem, settings: Settings) -> NDArray[np.int64]:
        """Choose and check the kept positions.

        Returns:
            `problem.budget` positions, none twice, in no particular order.

        Raises:
            ExtensionBroken: `choose` returned a wrong number of positions, or one twice.
        """
        kept = self.choose(problem) if self.settings is None else self.choose(problem, settings)
        mask = np.zeros(len(problem), dtype=bool)
        mask[kept] = True
        found = int(np.count_nonzero(mask))
        if len(kept) != problem.budget or found != problem.budget:
            raise errors.ExtensionBroken(
                f"selector {self.name!r} kept {found} samples where {problem.budget} were to stay"
            )
        return kept

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
