"""`Method`: a named preset of a score (or none), a selector, and the settings of its source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moso.methods.auto import CHOSEN
from moso.scores import Score, find_score
from moso.selection import Selector, find_selector


@dataclass(frozen=True)
class Method:
    """A score and the selector that its source uses.

    Attributes:
        score: Name of the score; None if the selector needs no score.
        selector: Name of the selector.
        settings: Settings of the selector, as in the source.
    """

    name: str
    score: str | None
    selector: str
    description: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""

    def find_score(self) -> Score | None:
        """Return the method's score, or None.

        Raises:
            UnknownName: No score has this name.
        """
        return None if self.score is None else find_score(self.score)

    def find_selector(self) -> Selector:
        """Return the method's selector.

        Raises:
            UnknownName: No selector has this name.
        """
        return CHOSEN if self.selector == CHOSEN.name else find_selector(self.selector)
