"""Views of a run for pages and plots, in the order of its configuration and with unique names."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from moso.evaluation.standings import RANDOM, Entry, Row, compared, entries
from moso.evaluation.summary import FULL, Line
from moso.report.findings import best_of
from moso.results.reading import Run
from moso.run.computed_scores import wanted_scores
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


def ordered_entries(run: Run) -> list[Entry]:
    """Return the entries of a run's evaluation: all data first, then pairs in the order of the configuration."""
    order = {pair: number for number, pair in enumerate(run.configuration.pairs())}
    found = entries(with_unique_names(run.evaluation()))
    return sorted(found, key=lambda row: (row.method != FULL, order.get((row.method, row.selector), len(order))))


def ordered_lines(run: Run) -> list[Line]:
    """Return the entries of a run's evaluation as lines, in the same order."""
    return [entry.line for entry in ordered_entries(run)]


def best_rows(run: Run) -> list[Row]:
    """Return the best method's row at every ratio of a run, ascending by ratio."""
    return best_of(compared(ordered_entries(run), run.manifest.get("dataset", {}).get("test", 0)))


def drawn_at_random(run: Run) -> NDArray[np.bool_] | None:
    """Return whether each label was drawn at random, ``[samples]`` in data set order; None if no noise was added."""
    ids = run.manifest.get("dataset", {}).get("labels_drawn_at_random", [])
    if not ids:
        return None
    column = run.table()["id"]
    drawn: NDArray[np.bool_] = pc.is_in(column, pa.array(ids, column.type)).to_numpy()
    return drawn


def plotted_scores(run: Run) -> dict[str, NDArray[np.float64]]:
    """Return the scores of the first seed except `random`, in the order of the run's methods."""
    order = wanted_scores([method for method, _ in run.configuration.pairs()])
    found = {name: values for name, values in run.scores().items() if name != RANDOM}
    return dict(sorted(found.items(), key=lambda one: order.index(one[0]) if one[0] in order else len(order)))
