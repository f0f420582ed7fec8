"""Names of selectors that tell apart retrainings whose selectors have different settings."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from moso.selection import SELECTORS


def selector_key(selector: str, parameters: str) -> str:
    """Return the selector's name, followed by its settings that differ from the defaults.

    Example:
        >>> selector_key("median", '{"classes": "balanced", "by": "score"}'), selector_key("median", "{}")
        ('median (classes=balanced)', 'median')
    """
    usual, given = _usual(selector), json.loads(parameters)
    said = [f"{name}={value}" for name, value in given.items() if name not in usual or usual[name] != value]
    return f"{selector} ({', '.join(said)})" if said else selector


@cache
def _usual(selector: str) -> dict[str, Any]:
    known = SELECTORS.find(selector)
    return {} if known is None else {option.name: option.default for option in known.options()}


def with_unique_names(cells: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add `key` to the results of an evaluation; it replaces the selector's name where that is ambiguous.

    Example:
        >>> cell = {"method": "ccs", "selector": "coverage"}
        >>> cells = [{**cell, "parameters": f'{{"cut": {cut}}}'} for cut in (0.1, 0.2)]
        >>> [one["selector"] for one in with_unique_names(cells)], [
        ...     one["selector"] for one in with_unique_names(cells[:1])
        ... ]
        (['coverage (cut=0.1)', 'coverage (cut=0.2)'], ['coverage'])
    """
    found = [{**cell, "key": selector_key(cell["selector"], cell["parameters"])} for cell in cells]
    keys: dict[tuple[str, str], set[str]] = {}
    for cell in found:
        keys.setdefault((cell["method"], cell["selector"]), set()).add(cell["key"])
    return [
        {**cell, "selector": cell["key"]} if len(keys[cell["method"], cell["selector"]]) > 1 else cell for cell in found
    ]
