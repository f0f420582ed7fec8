"""Views of a run for pages and plots, in the order of its configuration and with unique names."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from moso.analysis.retraining_names import selector_key as selector_key
from moso.analysis.retraining_names import with_unique_names as with_unique_names
from moso.evaluation.standings import RANDOM, Entry, Row, compared, entries
from moso.evaluation.summary import FULL, Line
from moso.report.findings import best_of
from moso.results.reading import Run
from moso.run.computed_scores import wanted_scores


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
