"""The largest share that a method can remove within a tolerance of a few points against all data.

The loss of a method is known at the retrained ratios, and is zero at ratio 0. Between two ratios the loss is
interpolated linearly; nothing is extrapolated beyond the largest ratio. The result is the largest ratio at which the
interpolated loss is within the tolerance, even if a smaller ratio is not: retraining is noisy, and losses need not be
monotonic.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from moso import errors
from moso.selection import check_ratio


@dataclass(frozen=True)
class Prunable:
    """The largest ratio within the tolerance; `at_least` if it is the largest ratio that was tried."""

    ratio: float
    at_least: bool

    def __str__(self) -> str:
        return f"{'≥ ' if self.at_least else ''}{100 * self.ratio:.0f} %"


def prunable(losses: Mapping[float, float], tolerance: float) -> Prunable:
    """Return the largest ratio whose loss against all data is at most `tolerance`.

    Args:
        losses: Loss by ratio, in the unit of the tolerance; positive if the method is worse than all data.
        tolerance: Largest acceptable loss, 0 or more.

    Raises:
        NothingToMeasure: `losses` is empty.
        SettingInvalid: `tolerance` is negative or not finite.
        RatioOutOfRange: A ratio is outside ``[0, 1)``.

    Example:
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
    """Check that a tolerance is a finite number, 0 or more.

    Raises:
        SettingInvalid: It is not.
    """
    if not 0 <= tolerance < float("inf"):  # also refuses NaN
        raise errors.SettingInvalid(f"tolerance {tolerance} must be 0 or a number of points that pruning may cost")
