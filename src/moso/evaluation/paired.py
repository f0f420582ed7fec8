"""The statistic that decides whether two methods differ: the paired difference over seeds.

Under one seed all methods share data, surrogates, initialisation and test data, so the effect of the seed cancels in
the difference. The difference is taken seed by seed, with Student's t interval over the differences. The page, the
terminal, `moso compare` and `moso reproduce` all print this difference, and take their words from its verdict.

Multiple comparisons: the printed interval is that of a single comparison. The verdict is corrected for all
`comparisons` of a table (Bonferroni): it is "better" or "worse" only if the interval, widened so that 95 of 100 such
tables contain no false verdict, excludes zero. So picking the best row of a table claims no more than the table does.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from moso.tasks.metric import ACCURACY, Measure

COVERAGE = 0.95
Verdict = Literal["better", "worse", "level", "unknown"]


@dataclass(frozen=True)
class PairedDifference:
    """How far one method's mean is above another's over the seeds that both have, in the measure's unit.

    Attributes:
        value: Mean of the differences; positive if the first method's values are higher, be that better or worse.
        margin: Half the width of the 95 % interval of this difference by itself; NaN for a single pair.
        widened: Half the width of the interval that allows for all `comparisons`; NaN for a single pair.
        pairs: Number of seeds that both methods have.
        comparisons: Number of differences in the same table, this one included.
        measure: The metric, its unit and its better end.
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
        """The difference with its sign turned so that higher is better."""
        return self.measure.sign * self.value

    @property
    def verdict(self) -> Verdict:
        """Whether the first method is better, worse, level (chance may explain the difference) or unknown (one pair).

        Example:
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
        """A star if the verdict is better or worse, else an empty string."""
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
        second: One value per seed of the other method.
        measure: The metric of the values.
        test_samples: Size of the test data, or 0 if unknown. The resolution of accuracy is one test sample, and the
            standard deviation is taken to be at least that: two seeds that happen to agree are weak evidence.
        comparisons: Number of differences in the same table, this one included.

    Returns:
        The difference over the common seeds; with one common seed its interval is NaN, with none the result is None.

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
    from scipy.stats import t  # imported here: it takes half a second

    resolution = 100 / test_samples if test_samples and measure == ACCURACY else 0.0
    error = max(float(differences.std(ddof=1)), resolution) / math.sqrt(pairs)
    margin, widened = (float(t.isf((1 - COVERAGE) / (2 * count), pairs - 1)) * error for count in (1, comparisons))
    return PairedDifference(mean, margin, widened, pairs, comparisons, measure)
