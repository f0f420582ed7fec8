"""Numbers and names in words."""

from pathlib import PurePath

from moso.configuration import CUSTOM

# The note on multiple comparisons, wherever paired differences are shown (`evaluation/paired.py`).
SEVERAL = (
    "Each interval holds by itself; verdicts allow for all differences to the same baseline at the ratio (Bonferroni). "
    "A single seed has no interval and no verdict."
)


def duration(seconds: float) -> str:
    """Format seconds with a suitable unit.

    Example:
        >>> duration(12.34), duration(200), duration(9000), duration(4e9)
        ('12.3 s', '3.3 min', '2.5 h', '127 years')
    """
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172_800, "h", 3600), (63e6, "days", 86_400)):
        if seconds < limit:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 31_557_600:,.0f} years"


def percent(share: float) -> str:
    """Format a share as a percentage, with no more digits than needed.

    Example:
        >>> percent(0.4), percent(0.125)
        ('40 %', '12.5 %')
    """
    return f"{100 * share:.4g} %"


def data_name(dataset: str) -> str:
    """Return a short name of the data: the last part of its path, without options.

    Example:
        >>> data_name("digits"), data_name("folder:/data/pets/"), data_name("parquet:a/cifar100?label=coarse_label")
        ('digits', 'pets', 'cifar100')
        >>> data_name("custom")
        'the data'
    """
    if dataset == CUSTOM:
        return "the data"
    scheme, colon, place = dataset.partition(":")
    if not colon:
        return dataset
    return PurePath(place.split("?")[0].split(":")[0]).name or scheme


def count_of(number: int, noun: str) -> str:
    """Format a number with its noun in singular or plural.

    Example:
        >>> count_of(1, "seed"), count_of(1438, "sample"), count_of(6, "class")
        ('1 seed', '1,438 samples', '6 classes')
    """
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
