"""Agreement of scores with each other, with themselves under other seeds, and with labels known to be wrong.

Also the test accuracy of retrained networks per class.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso.analysis.class_changes import class_changes
from moso.analysis.wording import percent
from moso.evaluation.overlap import rank_correlations
from moso.evaluation.summary import FULL
from moso.report.page.page_columns import Column
from moso.report.page.sample_columns import Columns
from moso.report.run_views import drawn_at_random, plotted_scores, with_unique_names
from moso.results.reading import Run


def score_agreement(run: Run) -> dict[str, Any] | None:
    """Return the rank correlations of all meaningful scores, and one row per score; None if there are no scores yet."""
    values = {name: one for name, one in plotted_scores(run).items() if np.isfinite(one).all()}
    if not values:
        return None
    drawn = drawn_at_random(run)
    others = [other for seed in run.configuration.all_seeds()[1:] if (other := run.scores(seed))]
    table = rank_correlations(values)
    matrix = [[None if np.isnan(one) else round(float(one), 4) for one in row] for row in table.values]
    noise = 0 if drawn is None else int(drawn.sum())
    return {
        "names": list(table.names),
        "matrix": matrix,
        "rows": [_row(name, own, drawn, [o[name] for o in others if name in o]) for name, own in values.items()],
        "noise": noise,
        "noise_share": "" if drawn is None else percent(round(noise / len(drawn), 3)),
    }


def _row(
    name: str, values: NDArray[np.float64], drawn: NDArray[np.bool_] | None, others: list[NDArray[np.float64]]
) -> dict[str, str]:
    # The rank correlation of a constant column is undefined.
    usable = [other for other in others if np.ptp(values) > 0 and np.ptp(other) > 0 and np.isfinite(other).all()]
    seeds = [float(rank_correlations({"own": values, "other": other}).values[0, 1]) for other in usable]
    found = ""
    if drawn is not None:
        lowest = np.argsort(values, kind="stable")[: int(drawn.sum())]
        found = percent(round(float(drawn[lowest].mean()), 3))
    return {
        "name": name,
        "lowest": f"{values.min():.3g}",
        "median": f"{float(np.median(values)):.3g}",
        "highest": f"{values.max():.3g}",
        "below_zero": percent(round(float((values < 0).mean()), 3)),
        "seeds": f"{np.mean(seeds):.2f}" if seeds else "one seed",
        "found": found,
    }


def class_accuracy(run: Run) -> tuple[list[dict[str, Any]], Columns]:
    """Return the accuracy of every class in %, summed over seeds, and which classes a selection harms.

    Returns:
        What each row is (method, key, ratio), and the columns: ``class-accuracy`` and ``class-harmed``, both
        ``[rows, classes]`` (accuracies are NaN for classes without test samples), and ``class-tests``, the number of
        test samples per class and seed.
    """
    gathered: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for cell in with_unique_names(run.evaluation()):
        if cell.get("class_correct") is not None:
            gathered.setdefault((cell["method"], cell["key"], cell["ratio"]), []).append(cell)
    if not gathered:
        return [], {}
    correct, counts = (
        np.stack([np.sum([one[name] for one in cells], axis=0) for cells in gathered.values()])
        for name in ("class_correct", "class_count")
    )
    with np.errstate(invalid="ignore"):
        rows = 100 * correct / counts
    full = [cell for (method, _, _), cells in gathered.items() if method == FULL for cell in cells]
    harmed = np.stack([_harmed(cells, full, run) for cells in gathered.values()])
    tests = counts[0] // len(next(iter(gathered.values())))
    about = [{"method": method, "key": key, "ratio": ratio} for method, key, ratio in gathered]
    classes = rows.shape[1]
    return about, {
        "class-accuracy": Column("float32", classes, lambda: rows, len(rows)),
        "class-harmed": Column("uint8", classes, lambda: harmed, len(harmed)),
        "class-tests": Column("uint32", classes, lambda: tests),
    }


def _harmed(cells: list[dict[str, Any]], full: list[dict[str, Any]], run: Run) -> NDArray[np.bool_]:
    """Return whether each class falls by more than the tolerance and chance explain (`analysis/class_changes.py`)."""
    found = np.zeros(len(run.task.classes), dtype=bool)
    # By number in place of the name, because two classes may have the same name.
    for change in class_changes(cells, full, [str(number) for number in range(len(found))]):
        found[int(change.name)] = change.is_harm(run.configuration.tolerance)
    return found
