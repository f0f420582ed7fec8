"""A second run on the page of a run: its scores and selections as further methods, and both runs' retrainings."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso.analysis.run_pair import PairRow, RunPair
from moso.evaluation.paired import Verdict
from moso.evaluation.standings import Entry
from moso.methods import known_method
from moso.report.page.overview import score_of
from moso.report.page.page_columns import Column
from moso.report.page.sample_columns import Columns
from moso.report.run_views import plotted_scores, selector_key
from moso.results.selections import Selection, read_selection

_VERDICTS: dict[Verdict, str] = {
    "better": "better in {name}",
    "worse": "worse in {name}",
    "level": "may be chance",
    "unknown": "one seed cannot tell",
}


def against(pair: RunPair) -> tuple[dict[str, Any], Columns]:
    """Return the second run for the page, and its columns in the order of the first run's samples.

    The description has `scores`, `selections` and `methods` in the form of the page's own, under names that begin with
    the second run's name, and `against`: what differs, and the retrainings side by side.
    """
    other, count = pair.other, len(pair.places)
    scores = {name: one for name, one in plotted_scores(other).items() if np.isfinite(one).all()}
    columns: Columns = {
        f"score/{_named(pair, name)}": Column("float64", count, partial(_taken, values, pair.places))
        for name, values in scores.items()
    }
    selections: list[dict[str, Any]] = []
    for one in other.selections():
        if one.seed != other.configuration.seed:
            continue
        column = f"other-kept/{len(selections)}"
        columns[column] = Column("bits", count, partial(_kept, pair, one))
        key = selector_key(one.selector, one.parameters)
        described = {"method": _named(pair, one.method), "selector": one.selector, "ratio": one.ratio}
        selections.append({**described, "key": key, "column": column})
    about = {
        "scores": [_named(pair, name) for name in scores],
        "selections": selections,
        "methods": _methods(pair, scores, selections),
        "against": {
            "name": pair.name,
            "labels_differ": pair.labels_differ,
            "same_test": pair.same_test,
            "settings": [list(one) for one in pair.settings],
            "rows": [_row(one, pair.name) for one in pair.rows],
            "note": "Differences seed by seed, with 95 % intervals over the seeds that both runs have. Each interval "
            "holds by itself; verdicts allow for all differences of this table (Bonferroni). A single seed has no "
            "interval and no verdict.",
        },
    }
    return about, columns


def _named(pair: RunPair, method: str) -> str:
    return f"{pair.name}: {method}"


def _taken(values: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
    return values[places]


def _kept(pair: RunPair, selection: Selection) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = read_selection(pair.other.directory.root, selection)[pair.places]
    return found


def _methods(
    pair: RunPair, scores: dict[str, NDArray[np.float64]], selections: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    names = dict.fromkeys([*scores, *(one["method"].removeprefix(f"{pair.name}: ") for one in selections)])
    found = []
    for name in names:
        keys = [one["key"] for one in selections if one["method"] == _named(pair, name)]
        known, score = known_method(name), score_of(name)
        own = min(keys, key=len, default="top" if known is None else known.selector)
        found.append(
            {
                "name": _named(pair, name),
                "score": _named(pair, score) if score in scores else None,
                "selector": own,
                "description": "" if known is None else known.description,
                # With other labels, balanced selections of the other run cannot be computed from this run's.
                "in_page": pair.labels_differ == 0,
            }
        )
    return found


def _row(one: PairRow, name: str) -> dict[str, Any]:
    return {
        "name": one.name,
        "ratio": one.ratio,
        "own": _value(one.own),
        "other": _value(one.other),
        "difference": "" if one.difference is None else str(one.difference),
        "verdict": "" if one.difference is None else _VERDICTS[one.difference.verdict].format(name=name),
    }


def _value(entry: Entry | None) -> str:
    return "" if entry is None else entry.line.text
