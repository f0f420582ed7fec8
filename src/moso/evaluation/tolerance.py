"""How much can go: the largest share that a method can remove and stay within a few points of all data.

What a method loses is known at the ratios that were retrained, and is nothing at ratio 0, where it keeps all data.
Between two of them the loss is taken to lie on the straight line through both; beyond the largest, nothing is claimed.
The answer is the largest ratio at which that line is within the tolerance, even if a smaller ratio is not: retraining
is noisy, and a loss need not grow steadily.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from moso import errors
from moso.selection import check_ratio


@dataclass(frozen=True)
class Prunable:
    """The largest ratio within the tolerance; `at_least` if it is the largest that was tried."""

    ratio: float
    at_least: bool

    def __str__(self) -> str:
        return f"{'≥ ' if self.at_least else ''}{100 * self.ratio:.0f} %"


def prunable(losses: Mapping[float, float], tolerance: float) -> Prunable:
    """The largest ratio whose loss against all data, in the tolerance's unit, is at most `tolerance`.

    `losses` are positive where the method is worse than all data.

    >>> str(prunable({0.4: 0.5, 0.8: 2.5}, tolerance=1.0)), str(prunable({0.4: 0.5}, tolerance=1.0))
    ('50 %', '≥ 40 %')
    """
    check_tolerance(tolerance)
    if not losses:
        raise errors.NothingToMeasure("no ratio was retrained, so nothing is known of what pruning costs")
    for ratio in losses:
        check_ratio(ratio)
    known = sorted({0.0: 0.0, **losses}.items())
    if known[-1][1] <= tolerance:
        return Prunable(known[-1][0], at_least=True)
    for (low, loss), (high, more) in reversed(list(pairwise(known))):
        if loss <= tolerance:
            return Prunable(low + (high - low) * (tolerance - loss) / (more - loss), at_least=False)
    return Prunable(0.0, at_least=False)


def check_tolerance(tolerance: float) -> None:
    """Refuse a tolerance that is no number of points."""
    if not 0 <= tolerance < float("inf"):  # also refuses NaN
        raise errors.SettingInvalid(f"tolerance {tolerance} must be 0 or a number of points that pruning may cost")
