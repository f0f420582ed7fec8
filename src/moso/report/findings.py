"""The best method at every ratio, and how often it beats random selection. The headline is `analysis/verdict.py`."""

from collections.abc import Sequence

from moso.analysis.wording import count_of
from moso.evaluation.standings import Row, is_method


def best_of(rows: Sequence[Row]) -> list[Row]:
    """Return the best method's row at every ratio at which a method was retrained, ascending by ratio."""
    methods = [row for row in rows if is_method(row.entry.method)]
    return [
        max((row for row in methods if row.entry.ratio == ratio), key=lambda row: row.entry.line.merit)
        for ratio in sorted({row.entry.ratio for row in methods})
    ]


def tally(best: Sequence[Row]) -> str:
    """Return how often the best method beats, equals and loses to random selection; empty with a single seed."""
    verdicts = [one.against_random.verdict for one in best if one.against_random is not None]
    if not verdicts or "unknown" in verdicts:
        return ""
    counts = {verdict: verdicts.count(verdict) for verdict in ("better", "level", "worse")}
    return (
        f"Over {count_of(len(verdicts), 'ratio')}, the best method beats random selection of the same size at "
        f"{counts['better']}, cannot be told apart from it at {counts['level']}, and loses to it at {counts['worse']}."
    )
