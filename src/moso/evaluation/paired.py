"""The one statistic that says whether two methods differ: the paired difference over seeds.

Under one seed all methods share data, surrogates, initialisation and test, and what that seed does to all of them
cancels. So the difference is taken seed by seed, and Student's interval is taken over the differences. Page, terminal,
`moso compare` and `moso reproduce` all print this difference, and take their words from its verdict.

Several comparisons: the interval, as printed, holds by itself. The verdict allows for all `comparisons` that stand
beside each other (Bonferroni): it is better or worse only if the interval, widened so far that 95 of 100 such tables
contain no false verdict, leaves zero out. So the best of a table may be picked without claiming more than the table.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from moso.evaluation.summary import ACCURACY, Measure

COVERAGE = 0.95
Verdict = Literal["better", "worse", "level", "unknown"]


@dataclass(frozen=True)
class PairedDifference:
    """How far one method's mean is above another's over the seeds that both have, in the measure's unit.

    Attributes:
        value: Mean of the differences; positive where the first is higher, be that better or worse.
        margin: Half the width of the 95 % interval of this difference by itself; NaN for a single pair.
        widened: Half the width of the interval that allows for all `comparisons`; NaN for a single pair.
        pairs: Number of seeds that both have.
        comparisons: Number of differences that stand beside each other, this one included.
        measure: What was measured, and which end of it is better.
    """

    value: float
    margin: float
    widened: float
    pairs: int
    comparisons: int = 1
    measure: Measure = ACCURACY

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval; NaN for a single pair."""
        return self.value - self.margin

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval; NaN for a single pair."""
        return self.value + self.margin

    @property
    def gain(self) -> float:
        """The difference, turned so that more is better."""
        return self.measure.sign * self.value

    @property
    def verdict(self) -> Verdict:
        """Whether the first is better or worse, level (chance may explain the difference), or unknown (one pair).

        >>> [PairedDifference(1.2, 0.5, widened, pairs=3).verdict for widened in (0.9, 1.5, math.nan)]
        ['better', 'level', 'unknown']
        """
        if math.isnan(self.widened):
            return "unknown"
        if abs(self.value) <= self.widened:
            return "level"
        return "better" if self.gain > 0 else "worse"

    @property
    def star(self) -> str:
        """The mark of a difference that is called one, and nothing for others."""
        return " *" if self.verdict in ("better", "worse") else ""

    def __str__(self) -> str:
        text = self.measure.text
        signed = ("−" if self.value < 0 else "+") + text(abs(self.value))  # noqa: RUF001 - as wide as the plus
        return signed + ("" if math.isnan(self.margin) else f" ± {text(self.margin)}")


def paired_difference(
    first: Mapping[int, float],
    second: Mapping[int, float],
    *,
    measure: Measure = ACCURACY,
    test_samples: int = 0,
    comparisons: int = 1,
) -> PairedDifference | None:
    """Compare two methods seed by seed.

    Args:
        first: One value per seed.
        second: One value per seed of the method it is compared with.
        measure: What the values are.
        test_samples: Size of the test data, or 0 if unknown. Accuracy comes in steps of one test sample, and no
            standard deviation is taken to be smaller: two seeds that happen to agree say little.
        comparisons: Number of differences that stand beside each other, this one included.

    Returns:
        The difference over the seeds that both have, without an interval (NaN) for a single seed; None for no seed.

    Example:
        >>> found = paired_difference({0: 3.0, 1: 5.0, 2: 4.0}, {0: 1.0, 1: 2.0, 2: 3.0})
        >>> str(found), found.pairs, found.verdict
        ('+2.0 ± 2.5', 3, 'level')
    """
    common = sorted(first.keys() & second.keys())
    if not common:
        return None
    differences = np.array([first[seed] - second[seed] for seed in common])
    mean, pairs = float(differences.mean()), len(common)
    if pairs < 2:
        return PairedDifference(mean, math.nan, math.nan, pairs, comparisons, measure)
    from scipy.stats import t  # takes half a second

    resolution = 100 / test_samples if test_samples and measure == ACCURACY else 0.0
    error = max(float(differences.std(ddof=1)), resolution) / math.sqrt(pairs)
    margin, widened = (float(t.isf((1 - COVERAGE) / (2 * count), pairs - 1)) * error for count in (1, comparisons))
    return PairedDifference(mean, margin, widened, pairs, comparisons, measure)
