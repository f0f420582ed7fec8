"""A method: a named preset of a score (or none), a selector, and the settings of its source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moso.scores import Score, find_score
from moso.selection import Selector, find_selector


@dataclass(frozen=True)
class Method:
    """A score and the selector its source uses; where there is no score, the selector does without.

    `settings` are the selector's, as in the source.
    """

    name: str
    score: str | None
    selector: str
    description: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""

    def find_score(self) -> Score | None:
        """Its score, if it has one."""
        return None if self.score is None else find_score(self.score)

    def find_selector(self) -> Selector:
        """Its selector."""
        return find_selector(self.selector)
