"""How many samples stay, to the sample."""

import math

from moso import errors


def check_ratio(ratio: float) -> None:
    """Refuse a ratio that is no share to remove."""
    if not 0 <= ratio < 1:  # also refuses NaN
        raise errors.RatioOutOfRange(f"ratio {ratio} is outside [0, 1); it is the share of samples to remove")


def kept_count(count: int, ratio: float) -> int:
    """How many of `count` samples stay when the share `ratio` is removed: `count - floor(ratio * count)`.

    >>> kept_count(10, 0.3), kept_count(1000, 0.7)
    (7, 300)
    """
    check_ratio(ratio)
    # 0.3 * 10 is 3.0000000000000004 and 0.7 * 1000 is 699.9999999999999: both mean what the user typed.
    kept = count - math.floor(ratio * count + 1e-9)
    if kept < 1:
        raise errors.RatioOutOfRange(f"ratio {ratio} would keep none of {count} samples; choose a smaller ratio")
    return kept
