"""Per-sample columns of the page: id, label, partition, scores, kept or not, and out-of-sample predictions."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from moso.evidence.predictions import out_of_sample_path, read_out_of_sample
from moso.files import read_table
from moso.report.page.page_columns import Column, smallest
from moso.report.run_views import drawn_at_random, plotted_scores, selector_key
from moso.results.reading import Run
from moso.results.selections import read_selection
from moso.tasks import Task

Columns = dict[str, Column]
# Rows of a memory map that are read at a time.
_BLOCK = 65_536
# Whole numbers from here on are not exact in JavaScript, whose numbers are float64.
_EXACT = 2**53
NO_PREDICTIONS = (
    "Out-of-sample predictions (of networks that did not train on the sample) are recorded by moso suspects RUN, and "
    "where a method needs them; they take at least two partitions."
)


def sample_columns(run: Run) -> tuple[dict[str, Any], Columns]:
    """Return the description of the per-sample columns, and the columns in data set order; none without scores."""
    scores = {name: values for name, values in run.scores().items() if np.isfinite(values).all()}
    if not scores:
        return {"scores": [], "selections": [], "ids": "range"}, {}
    table, task = run.table(), run.task
    about: dict[str, Any] = {"ids": "range", "predictions": NO_PREDICTIONS}
    columns: Columns = {}
    kind, ids = id_column(table["id"].combine_chunks())
    about["ids"] = kind
    if ids is not None:
        columns["id"] = ids
    order = order_by_id(table["id"].to_numpy())
    if order is not None:
        columns["by-id"] = Column("uint32", len(order), lambda: order)
    columns |= _answers(table["label"].combine_chunks(), task)
    parts = table["partition"].to_numpy()
    columns["partition"] = Column(smallest(int(parts.max()) + 1), len(parts), lambda: parts)
    meant = [name for name in plotted_scores(run) if name in scores]
    about["scores"] = [*meant, *(name for name in scores if name not in meant)]
    for name in about["scores"]:
        columns[f"score/{name}"] = Column("float64", len(parts), partial(scores.__getitem__, name))
    drawn = drawn_at_random(run)
    if drawn is not None:
        columns["drawn"] = Column("bits", len(drawn), lambda: drawn)
    suspected = _suspected(run.directory.root / "suspects" / "suspects.parquet", table["id"])
    if suspected is not None:
        columns["suspected"] = Column("bits", len(parts), lambda: suspected)
    predicted = _predictions(run.directory.root, len(parts), table["label"].to_numpy() if task.by_class else None)
    if predicted:
        about["predictions"] = ""
        columns |= predicted
    about["selections"], kept = _selections(run, len(parts))
    return about, columns | kept


def id_column(ids: pa.Array) -> tuple[str, Column | None]:
    """Encode ids for a browser: `range` needs no column, `numbers` are float64, everything else is text.

    Example:
        >>> id_column(pa.array([0, 1, 2]))[0], id_column(pa.array([5, 3]))[0], id_column(pa.array(["a"]))[0]
        ('range', 'numbers', 'texts')
    """
    if pa.types.is_integer(ids.type):
        values = ids.to_numpy()
        if (values == np.arange(len(values))).all():
            return "range", None
        if np.abs(values).max() < _EXACT:
            return "numbers", Column("float64", len(values), lambda: values)
    return "texts", Column("texts", len(ids), lambda: [str(one) for one in ids.to_pylist()])


def order_by_id(ids: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return positions in the order that breaks ties; None if it is the order of the data.

    Example:
        >>> order_by_id(np.array(["b", "a"])), order_by_id(np.array([3, 7]))
        (array([1, 0]), None)
    """
    order: NDArray[np.int64] = np.unique(ids, return_index=True)[1]
    return None if (np.diff(order) > 0).all() else order


def _answers(labels: pa.Array, task: Task) -> Columns:
    """Return the column of answers as the task wrote it: classes, numbers, lists of numbers, texts, or nothing."""
    count = len(labels)
    if task.by_class:
        return {"label": Column(smallest(len(task.classes)), count, labels.to_numpy)}
    if pa.types.is_null(labels.type):
        return {}
    if pa.types.is_list(labels.type) or pa.types.is_string(labels.type):
        texts = [row if isinstance(row, str) else _numbers(row) for row in labels.to_pylist()]
        return {"answers": Column("texts", count, lambda: texts)}
    return {"answer": Column("float64", count, labels.to_numpy)}


def _numbers(row: list[Any]) -> str:
    return ", ".join(_numbers(one) if isinstance(one, list) else f"{one:.4g}" for one in row)


def _suspected(path: Path, ids: pa.ChunkedArray) -> NDArray[np.bool_] | None:
    """Return which samples `moso suspects` named; None if it was not run."""
    if not path.exists():
        return None
    named = read_table(path, ["id"])["id"].cast(ids.type)
    found: NDArray[np.bool_] = pc.is_in(ids, named.combine_chunks()).to_numpy()
    return found


def _predictions(home: Path, count: int, labels: NDArray[np.int64] | None) -> Columns:
    if labels is None or not out_of_sample_path(home).exists():
        return {}
    found = read_out_of_sample(home)
    predicted, highest, of_label = np.empty(count, np.uint32), np.empty(count, np.float32), np.empty(count, np.float32)
    for start in range(0, count, _BLOCK):
        block = np.asarray(found[start : start + _BLOCK])
        rows, place = np.arange(len(block)), slice(start, start + len(block))
        predicted[place] = block.argmax(axis=1)
        highest[place] = block.max(axis=1)
        of_label[place] = block[rows, labels[place]]
    return {
        "predicted": Column(smallest(found.shape[1]), count, lambda: predicted),
        "predicted-probability": Column("float32", count, lambda: highest),
        "label-probability": Column("float32", count, lambda: of_label),
    }


def _selections(run: Run, count: int) -> tuple[list[dict[str, Any]], Columns]:
    """Return the selections of the first seed: the description and the mask of kept samples of each."""
    root = run.directory.root
    about: list[dict[str, Any]] = []
    columns: Columns = {}
    for one in run.selections():
        if one.seed != run.configuration.seed:
            continue
        name = f"kept/{len(about)}"
        columns[name] = Column("bits", count, partial(read_selection, root, one))
        about.append(
            {
                "method": one.method,
                "selector": one.selector,
                "ratio": one.ratio,
                "key": selector_key(one.selector, one.parameters),
                "column": name,
            }
        )
    return about, columns
