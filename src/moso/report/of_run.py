"""What pages and plots show of a run, in the order of its configuration."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from moso.evaluation.compare import RANDOM, Entry, Row, compared, entries
from moso.evaluation.summary import FULL, Line
from moso.report.findings import best_of
from moso.report.naming import told_apart
from moso.run.reading import Run
from moso.run.scores import wanted_scores


def ordered_entries(run: Run) -> list[Entry]:
    """The evaluation of a run, seeds gathered: all data first, then the pairs in the order of its configuration."""
    order = {pair: number for number, pair in enumerate(run.configuration.pairs())}
    found = entries(told_apart(run.evaluation()))
    return sorted(found, key=lambda row: (row.method != FULL, order.get((row.method, row.selector), len(order))))


def ordered_lines(run: Run) -> list[Line]:
    """What the entries of a run's evaluation reached, in their order."""
    return [entry.line for entry in ordered_entries(run)]


def best_rows(run: Run) -> list[Row]:
    """The best method's standing at every ratio of a run, the smallest ratio first."""
    return best_of(compared(ordered_entries(run), run.manifest.get("dataset", {}).get("test", 0)))


def drawn_at_random(run: Run) -> NDArray[np.bool_] | None:
    """Whose label was drawn at random, in dataset order; None where no noise was added."""
    ids = run.manifest.get("dataset", {}).get("labels_drawn_at_random", [])
    if not ids:
        return None
    column = run.table()["id"]
    drawn: NDArray[np.bool_] = pc.is_in(column, pa.array(ids, column.type)).to_numpy()
    return drawn


def plotted_scores(run: Run) -> dict[str, NDArray[np.float64]]:
    """The scores of the first seed that mean something, in the order of the run's methods."""
    order = wanted_scores([method for method, _ in run.configuration.pairs()])
    found = {name: values for name, values in run.scores().items() if name != RANDOM}
    return dict(sorted(found.items(), key=lambda one: order.index(one[0]) if one[0] in order else len(order)))
