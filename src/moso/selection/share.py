"""Shares as people write them: what to remove (`ratio`) and what to keep (`keep`), as a number or as a text.

Library and command line read them by the same two functions.
"""

from dataclasses import dataclass

from moso import errors
from moso.selection.budget import check_ratio, kept_count

_RATIO = "it is the share of samples to remove"


@dataclass(frozen=True)
class Keep:
    """What is kept: a share of the samples or a number of samples; one of the two is set.

    Attributes:
        share: Share of the samples, in ``(0, 1]``.
        count: Number of samples.

    Example:
        >>> Keep(share=0.6).ratio(50), Keep(count=3000).ratio(10_000)
        (0.4, 0.7)
    """

    share: float | None = None
    count: int | None = None

    def ratio(self, samples: int) -> float:
        """Return the share to remove from this many samples, such that exactly `count` of them are kept.

        Raises:
            RatioOutOfRange: `count` is more than there are.
        """
        if self.count is None:
            assert self.share is not None, "a Keep has a share or a count"
            return round(1 - self.share, 12)
        if self.count > samples:
            raise errors.RatioOutOfRange(f"keep = {self.count} is more than the {samples} samples there are")
        exact = 1 - self.count / samples
        short = round(exact, 6)  # 0.7 and not 0.7000000000000001, where both keep the same number
        return short if short < 1 and kept_count(samples, short) == self.count else exact


def parse_share(value: str | float | int) -> float:
    """Read a share of samples to remove: 0.4, "0.4" or "40%".

    Args:
        value: The share, in ``[0, 1)``; percentages are texts that end with %.

    Raises:
        RatioOutOfRange: The value is outside ``[0, 1)``.
        SettingInvalid: The value is no number.

    Example:
        >>> parse_share("40%"), parse_share(0.4), parse_share("0.4")
        (0.4, 0.4, 0.4)
        >>> parse_share(40)
        Traceback (most recent call last):
        ...
        moso.errors.RatioOutOfRange: ratio 40 is outside [0, 1); it is the share of samples to remove: did you mean 0.4?
    """
    share, is_percentage = _number(value, "ratio")
    if not is_percentage and 2 <= share < 100:
        raise errors.RatioOutOfRange(f"ratio {value} is outside [0, 1); {_RATIO}: did you mean {share / 100:.12g}?")
    check_ratio(share)
    return share


def parse_keep(value: "str | float | int | Keep") -> Keep:
    """Read what is kept: a share of the samples (0.6, "60%") or a number of samples (3000).

    Whole numbers are samples, so 1 is one sample and 1.0 is all of them.

    Args:
        value: A share in ``(0, 1]``, a percentage as a text, or a number of samples, at least 1.

    Raises:
        RatioOutOfRange: The value is neither a share nor a number of samples.
        SettingInvalid: The value is no number.

    Example:
        >>> parse_keep(0.6), parse_keep("60%"), parse_keep(3000)
        (Keep(share=0.6, count=None), Keep(share=0.6, count=None), Keep(share=None, count=3000))
    """
    if isinstance(value, Keep):
        return value
    share, is_percentage = _number(value, "keep")
    is_whole = value.strip().lstrip("+-").isdigit() if isinstance(value, str) else float(value).is_integer()
    if is_whole and not is_percentage and not (isinstance(value, float) and share == 1):
        if share < 1:
            raise errors.RatioOutOfRange(f"keep = {value} keeps no sample; give a share such as 0.6, or at least 1")
        return Keep(count=int(share))
    if not 0 < share <= 1:
        hint = f": did you mean {share / 100:.12g}?" if 2 <= share < 100 and not is_percentage else ""
        raise errors.RatioOutOfRange(f"keep = {value} is neither a share in (0, 1] nor a whole number of samples{hint}")
    return Keep(share=share)


def asked_ratio(ratio: str | float | int | None, keep: "str | float | int | Keep | None", samples: int) -> float:
    """Return the share to remove that a caller asks for by `ratio` or by `keep`, of which exactly one is given.

    Args:
        ratio: What to remove, as `parse_share` reads it.
        keep: What to keep, as `parse_keep` reads it.
        samples: Number of samples there are.

    Raises:
        SettingMissing: Neither is given.
        SettingsConflict: Both are given.
        RatioOutOfRange: The share is out of range.

    Example:
        >>> asked_ratio(None, 0.6, 50), asked_ratio("40%", None, 50)
        (0.4, 0.4)
    """
    if ratio is not None and keep is not None:
        raise errors.SettingsConflict(f"ratio = {ratio} and keep = {keep} say the same thing twice; give one of them")
    if ratio is not None:
        return parse_share(ratio)
    if keep is None:
        raise errors.SettingMissing(
            "how much is to go? Give ratio, the share to remove (0.4), or keep, what stays (0.6, or 3000 samples)"
        )
    return parse_keep(keep).ratio(samples)


def _number(value: object, name: str) -> tuple[float, bool]:
    """Return a value as a number, and whether it was a percentage."""
    text = value.strip() if isinstance(value, str) else ""
    is_percentage = text.endswith("%")
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(text.removesuffix("%")) if text else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise errors.SettingInvalid(
            f"{name} = {value!r} is no number; give a share such as 0.4 or a percentage such as '40%'"
        ) from None
    return (round(number / 100, 12), True) if is_percentage else (number, False)
