"""The budget: the exact number of samples that are kept."""

import math

from moso import errors


def check_ratio(ratio: float) -> None:
    """Check that a ratio is in ``[0, 1)``.

    Raises:
        RatioOutOfRange: It is not, or it is NaN.
    """
    if not 0 <= ratio < 1:  # also refuses NaN
        raise errors.RatioOutOfRange(f"ratio {ratio} is outside [0, 1); it is the share of samples to remove")


def kept_count(count: int, ratio: float) -> int:
    """Return how many of `count` samples are kept: `count - floor(ratio * count)`.

    Args:
        count: Number of samples.
        ratio: Share of samples to remove, in ``[0, 1)``.

    Raises:
        RatioOutOfRange: `ratio` is outside ``[0, 1)``, or no sample would be kept.

    Example:
        >>> kept_count(10, 0.3), kept_count(1000, 0.7)
        (7, 300)
    """
    check_ratio(ratio)
    # Rounding errors must not change the count: 0.3 * 10 is 3.0000000000000004 and 0.7 * 1000 is 699.9999999999999.
    kept = count - math.floor(ratio * count + 1e-9)
    if kept < 1:
        raise errors.RatioOutOfRange(f"ratio {ratio} would keep none of {count} samples; choose a smaller ratio")
    return kept
