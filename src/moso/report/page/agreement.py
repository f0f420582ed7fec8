"""Agreement of scores with each other, with themselves under other seeds, and with labels known to be wrong.

Also the test accuracy of retrained networks per class.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso.analysis.wording import percent
from moso.evaluation.overlap import rank_correlations
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
    """Return the accuracy of every class in %, summed over seeds.

    Returns:
        What each row is (method, key, ratio), and the column ``[rows, classes]``; NaN for classes without test samples.
    """
    gathered: dict[tuple[str, str, float], tuple[np.ndarray, np.ndarray]] = {}
    for cell in with_unique_names(run.evaluation()):
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
