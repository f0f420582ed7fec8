"""Summary of an evaluation: mean metric per method and ratio, and after how many retrainings pruning pays off."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from moso.tasks.metric import ACCURACY, Measure

# The name under which training on all data is listed: the reference for all methods.
FULL = "full"


@dataclass(frozen=True)
class Line:
    """The values of one method at one ratio, one per seed."""

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
        """The mean with its sign turned so that higher is better."""
        return self.measure.sign * self.mean

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; 0 for a single seed, whose spread is unknown."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0

    @property
    def text(self) -> str:
        """The mean, with the standard deviation if there are several seeds."""
        text = self.measure.text
        return f"{text(self.mean)} ± {text(self.spread)}" if len(self.values) > 1 else text(self.mean)

    @property
    def name(self) -> str:
        """The name for people."""
        if self.method == FULL:
            return "all data"
        return self.method if self.selector == "none" else f"{self.method} ({self.selector})"


@dataclass(frozen=True)
class Costs:
    """Seconds of computation of a run.

    Attributes:
        surrogates: Training the surrogates, under one seed.
        scoring: Scoring, under one seed.
        retraining: One retraining, by ratio; ratio 0 is all data.
        all_retrainings: All retrainings of the run together.
    """

    surrogates: float
    scoring: float
    retraining: Mapping[float, float]
    all_retrainings: float

    def paid_after(self, ratio: float) -> int | None:
        """Return after how many retrainings at this ratio the saved time covers the cost of pruning; None if never.

        Example:
            >>> Costs(surrogates=30, scoring=30, retraining={0.0: 100, 0.5: 50}, all_retrainings=150).paid_after(0.5)
            2
        """
        if 0.0 not in self.retraining or ratio not in self.retraining:
            return None
        saved = self.retraining[0.0] - self.retraining[ratio]
        return math.ceil((self.surrogates + self.scoring) / saved) if saved > 0 else None
