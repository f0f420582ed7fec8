"""A selector: its name, what it needs, what it can be told, and the function that chooses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.selection.problem import Problem, lacking
from moso.settings import Option, Settings, options, resolve


@dataclass(frozen=True)
class Selector:
    """A named selector: a `Problem` in (and its settings, where it has some), `budget` positions out.

    `needs` are the kinds of evidence it always asks for: scores, labels, features, probability, class-error, hard.
    """

    name: str
    description: str
    choose: Callable[..., NDArray[np.int64]]
    needs: frozenset[str] = frozenset({"scores"})
    settings: type[Settings] | None = None

    def resolved(self, given: Mapping[str, Any]) -> Settings:
        """The settings that these values lead to; unknown names and values that make no sense are refused."""
        return resolve(f"selector {self.name!r}", self.settings or Settings, given)

    def needed(self, settings: Settings | None = None) -> frozenset[str]:
        """All evidence it asks for under these settings, or under its defaults."""
        return self.needs | (settings or self.resolved({})).needs()

    def options(self) -> list[Option]:
        """Its settings with their defaults and a sentence on each."""
        return options(self.settings or Settings)

    def __call__(self, problem: Problem, settings: Settings) -> NDArray[np.int64]:
        """The positions it keeps, checked: exactly as many as the budget, none twice."""
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
        """Refuse to start without the evidence that is needed."""
        for evidence in sorted(self.needed(settings) - given):
            raise lacking(self.name, evidence)
