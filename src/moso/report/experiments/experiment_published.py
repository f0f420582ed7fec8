"""Comparison with published numbers: each method's difference to random selection, and the order of the methods."""

from collections.abc import Sequence

from moso.analysis.wording import percent
from moso.evaluation.standings import RANDOM, Row, compared
from moso.experiments.declaration import Published
from moso.report.experiments.experiment_tables import Finished, by_arm, entries_of
from moso.report.text_table import TextTable

# Fewest methods whose order is compared.
_ORDERED = 3


def published_tables(finished: Sequence[Finished], published: Published | None) -> list[TextTable]:
    """Return one table per arm, with one line per common method: difference to random selection here and published.

    Its last line is Spearman's correlation of the two orders.
    """
    if published is None:
        return []
    return [table for name, own in by_arm(finished).items() for table in _of_arm(name, own, published)]


def _of_arm(name: str, finished: Sequence[Finished], published: Published) -> list[TextTable]:
    rows = compared(entries_of(finished))
    ratios = sorted({row.entry.ratio for row in rows} & set(published.removed))
    here = {ratio: _differences(rows, ratio, published) for ratio in ratios}
    here = {ratio: own for ratio, own in here.items() if len(own) >= _ORDERED}
    if not here:
        return []
    methods = dict.fromkeys(one for ratio, own in here.items() for one in published.removed[ratio] if one in own)
    texts = [[one, *(text for ratio in here for text in _pair(one, here[ratio], published, ratio))] for one in methods]
    texts.append(
        [
            "Spearman of the two orders",
            *(text for ratio in here for text in (_order(here[ratio], published, ratio), "")),
        ]
    )
    columns = ["method", *(text for ratio in here for text in (f"{percent(ratio)} removed, here", "published"))]
    note = f"Points above or below random selection; published: {published.source}."
    title = f"beside published numbers, {name}" if name else "beside published numbers"
    return [TextTable(title, columns, texts, note)]


def _differences(rows: Sequence[Row], ratio: float, published: Published) -> dict[str, float]:
    """Return the paired differences to the better random selection, of the methods with published results."""
    own = {
        row.entry.method: row.against_random.value
        for row in rows
        if row.entry.ratio == ratio and row.entry.method != RANDOM and row.against_random is not None
    }
    return {RANDOM: 0.0, **{name: value for name, value in own.items() if name in published.removed[ratio]}}


def _pair(name: str, here: dict[str, float], published: Published, ratio: float) -> list[str]:
    there = published.removed[ratio]
    return [f"{here[name]:+.1f}", f"{there[name] - there[RANDOM]:+.1f}"] if name in here else ["", ""]


def _order(here: dict[str, float], published: Published, ratio: float) -> str:
    from scipy.stats import spearmanr  # imported here: it takes half a second

    there = published.removed[ratio]
    return f"{float(spearmanr(list(here.values()), [there[name] for name in here]).statistic):.2f}"
