"""What an evaluation says in a few numbers: accuracy, or what takes its place, and when pruning has paid for itself."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

# The method of a cell that trains on all data: the yardstick of all others.
FULL = "full"


@dataclass(frozen=True)
class Measure:
    """What the numbers of an evaluation are: their name, their unit, and which end is the better one.

    >>> ACCURACY.text(91.234), LOSS.text(0.51234), R_SQUARED.title, LOSS.best([0.3, 0.2])
    ('91.2', '0.5123', 'R²', 0.2)
    """

    name: str
    unit: Literal["%", ""] = "%"
    better: Literal["higher", "lower"] = "higher"

    @property
    def title(self) -> str:
        """What a person calls it."""
        return "R²" if self.name == "r2" else self.name

    @property
    def heading(self) -> str:
        """What stands above a column of it."""
        return f"{self.title} in %" if self.unit == "%" else self.title

    @property
    def sign(self) -> int:
        """1 where more is better, -1 where less is."""
        return 1 if self.better == "higher" else -1

    def text(self, value: float) -> str:
        """A value as it is printed."""
        return f"{value:.1f}" if self.unit == "%" else f"{value:.4g}"

    def best(self, values: Iterable[float]) -> float:
        """The best of some values."""
        return max(values) if self.better == "higher" else min(values)


ACCURACY = Measure("accuracy")
R_SQUARED = Measure("r2")
LOSS = Measure("loss", unit="", better="lower")


@dataclass(frozen=True)
class Line:
    """What one method reached at one ratio under each seed."""

    method: str
    selector: str
    ratio: float
    values: tuple[float, ...]
    measure: Measure = ACCURACY

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return float(np.mean(self.values))

    @property
    def merit(self) -> float:
        """The mean, turned so that more is better."""
        return self.measure.sign * self.mean

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; 0 for a single one, which says nothing about spread."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0

    @property
    def text(self) -> str:
        """The mean, and the spread if there is one."""
        text = self.measure.text
        return f"{text(self.mean)} ± {text(self.spread)}" if len(self.values) > 1 else text(self.mean)

    @property
    def name(self) -> str:
        """What a person calls it."""
        if self.method == FULL:
            return "all data"
        return self.method if self.selector == "none" else f"{self.method} ({self.selector})"


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
