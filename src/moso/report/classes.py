"""Accuracy class by class, as the retrainings measured it."""

from typing import Any

import numpy as np

from moso.report.columns import Column
from moso.report.naming import told_apart
from moso.report.samples import Columns
from moso.run.reading import Run


def class_accuracy(run: Run) -> tuple[list[dict[str, Any]], Columns]:
    """What each row of the column is, and the column: accuracy in % of every class over all seeds, NaN if untested."""
    gathered: dict[tuple[str, str, float], tuple[np.ndarray, np.ndarray]] = {}
    for cell in told_apart(run.evaluation()):
        if "class_correct" not in cell:
            continue
        pair = (cell["method"], cell["key"], cell["ratio"])
        own = np.array(cell["class_correct"]), np.array(cell["class_count"])
        before = gathered.get(pair)
        gathered[pair] = own if before is None else (before[0] + own[0], before[1] + own[1])
    if not gathered:
        return [], {}
    with np.errstate(invalid="ignore"):
        rows = np.stack([100 * correct / count for correct, count in gathered.values()])
    about = [{"method": method, "key": key, "ratio": ratio} for method, key, ratio in gathered]
    return about, {"class-accuracy": Column("float32", rows.shape[1], lambda: rows, len(rows))}
