"""What an evaluation says in a few numbers: accuracy with its spread, and when pruning has paid for itself."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Line:
    """The accuracies of one method at one ratio over all seeds, in per cent."""

    method: str
    selector: str
    ratio: float
    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return float(np.mean(self.accuracies))

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; 0 for a single one, which says nothing about spread."""
        return float(np.std(self.accuracies, ddof=1)) if len(self.accuracies) > 1 else 0.0

    @property
    def name(self) -> str:
        """What a person calls it."""
        return "all data" if self.method == "full" else f"{self.method} ({self.selector})"


def lines(cells: Iterable[Mapping[str, Any]]) -> list[Line]:
    """Cells of the evaluation, seeds gathered, in the order methods first appear.

    >>> cells = [{"method": "moso", "selector": "top", "ratio": 0.5, "seed": s, "accuracy": 90.0 + s} for s in (0, 1)]
    >>> lines(cells)[0].mean
    90.5
    """
    gathered: dict[tuple[str, str, float], list[float]] = {}
    for cell in cells:
        gathered.setdefault((cell["method"], cell["selector"], cell["ratio"]), []).append(cell["accuracy"])
    return [Line(*key, tuple(values)) for key, values in gathered.items()]


@dataclass(frozen=True)
class Costs:
    """Seconds of computation: the surrogates and the scoring of one pruning, one retraining at each ratio (0 = all
    data), and all retrainings of the run together."""

    surrogates: float
    scoring: float
    retraining: Mapping[float, float]
    all_retrainings: float

    def paid_after(self, ratio: float) -> int | None:
        """After how many retrainings at this ratio the time saved exceeds the time pruning cost; None if never.

        >>> Costs(surrogates=30, scoring=30, retraining={0.0: 100, 0.5: 50}, all_retrainings=150).paid_after(0.5)
        2
        """
        if 0.0 not in self.retraining or ratio not in self.retraining:
            return None
        saved = self.retraining[0.0] - self.retraining[ratio]
        return math.ceil((self.surrogates + self.scoring) / saved) if saved > 0 else None
