"""Locations with options: `PATH?label=coarse_label&image=img`."""

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl

from moso import errors
from moso.errors import unknown_name

# Options that may follow the question mark; `split_options` explains them.
OPTIONS = ("label", "target", "image", "features")


def split_options(location: str, known: Sequence[str] = OPTIONS) -> tuple[str, Mapping[str, str]]:
    """Split a location into the path and its options.

    `label` names the column of classes, `target` a column of numbers to predict instead, `image` the column of encoded
    images, `features` the numeric columns to learn from, separated by commas.

    Args:
        location: `PATH` or `PATH?NAME=COLUMN&NAME=COLUMN`.
        known: Allowed options.

    Raises:
        UnknownName: An option is not allowed.
        DatasetNameInvalid: The options are malformed.
        SettingsConflict: Both `label` and `target` are given.

    Example:
        >>> split_options("data/train.parquet?label=coarse_label")
        ('data/train.parquet', {'label': 'coarse_label'})
    """
    place, mark, query = location.partition("?")
    if not mark:
        return place, {}
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in known:
            raise unknown_name("option", name, known)
    if not options or not all(options.values()):
        raise errors.DatasetNameInvalid(
            f"options of {place!r} must be written NAME=COLUMN, joined by '&', not {query!r}"
        )
    if "label" in options and "target" in options:
        raise errors.SettingsConflict(
            f"{place!r} has a label and a target: ?label=COLUMN is for classes, ?target=COLUMN for numbers"
        )
    return place, options
