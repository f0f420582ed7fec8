"""The findings of an evaluation in sentences that claim no more than the numbers do.

The best method at a ratio is compared with random selection of the same size. The best method was picked by its metric,
so the verdict behind a sentence is corrected for all methods that it was picked from (`evaluation/paired.py`).
"""

import math
from collections.abc import Sequence

from moso.evaluation.paired import PairedDifference
from moso.evaluation.standings import Entry, Row, is_method
from moso.report.wording import count_of, percent
from moso.selection import kept_count
from moso.tasks.metric import ACCURACY

# The largest loss at which the headline still says that data "can go": points of accuracy, or per cent of a loss.
CLOSE = 1.0


def best_of(rows: Sequence[Row]) -> list[Row]:
    """Return the best method's row at every ratio at which a method was retrained, ascending by ratio."""
    methods = [row for row in rows if is_method(row.entry.method)]
    return [
        max((row for row in methods if row.entry.ratio == ratio), key=lambda row: row.entry.line.merit)
        for ratio in sorted({row.entry.ratio for row in methods})
    ]


def headline(best: Sequence[Row], data: str, samples: int) -> str:
    """Return the result in two or three sentences: the cost of removing data, and the comparison with random selection.

    Args:
        best: The rows of `best_of`.
        data: Name of the data set.
        samples: Number of training samples.
    """
    if not best:
        return f"Nothing has been retrained on a pruned {data} yet, so nothing can be said about accuracy."
    chosen, close = headline_comparison(best)
    removed, name, measure = percent(chosen.entry.ratio), chosen.entry.name, chosen.entry.measure
    kept = count_of(kept_count(samples, chosen.entry.ratio), "sample")
    reaches = f"trained on the {kept} that {name} keeps, the network reaches {_value(chosen.entry, named=True)}"
    if chosen.full is None or chosen.against_full is None:
        first = f"With {removed} of {data} removed, {reaches}; training on all data has not been measured."
    else:
        beside = f"{_side(chosen.against_full)} all data ({_value(chosen.full)})"
        if close:
            first = f"{removed} of {data} {_certainty(chosen.against_full, _close(chosen))}: {reaches}, {beside}."
        else:
            price = measure.title if measure.better == "higher" else "something"
            first = f"Removing data costs {price} here: with {removed} of {data} removed, {reaches}, {beside}."
    return " ".join(filter(None, (first, _beside_random(chosen), _beside_matched(chosen))))


def headline_comparison(best: Sequence[Row]) -> tuple[Row, bool]:
    """Return the row that the headline is about, and whether it is close to all data.

    The row is that of the largest ratio that costs at most one point (or one per cent of a loss), or else the smallest
    ratio.
    """
    close = [one for one in best if one.against_full and one.against_full.gain >= -_close(one)]
    return (close[-1], True) if close else (best[0], False)


def _close(one: Row) -> float:
    """Return what counts as close to all data: one point, or one per cent of its value for metrics not in %."""
    return CLOSE if one.entry.measure.unit == "%" or one.full is None else CLOSE / 100 * abs(one.full.line.mean)


def _value(entry: Entry, named: bool = False) -> str:
    measure = entry.measure
    text = measure.text(entry.line.mean) + (" %" if measure.unit == "%" else "")
    return f"{text} ({measure.title})" if named and measure != ACCURACY else text


def _certainty(against_full: PairedDifference, close: float) -> str:
    if math.isnan(against_full.widened):
        return "may be able to go"
    return "can go" if against_full.gain - against_full.widened >= -close else "can probably go"


def _side(difference: PairedDifference) -> str:
    text = difference.measure.text(abs(difference.value))
    if float(text) == 0:
        return "the same as"
    unit = "" if difference.measure.unit != "%" else " point" if text == "1.0" else " points"
    return f"{text}{unit} {'above' if difference.value > 0 else 'below'}"


def _beside_random(chosen: Row) -> str:
    if chosen.random is None or chosen.against_random is None:
        return "Random selection of the same size has not been measured beside it."
    pairs = chosen.against_random.pairs
    shared = {len(chosen.entry.by_seed), len(chosen.random.by_seed)} == {pairs}
    over = "" if shared else f" over the {count_of(pairs, 'seed')} that both have"
    baseline = f"random selection of the same size ({_value(chosen.random)}){over}"
    side = _side(chosen.against_random)
    match chosen.against_random.verdict:
        case "unknown":
            return f"That is {side} {baseline}, but a single seed cannot tell merit from chance."
        case "level":
            return f"That is {side} {baseline}: no difference that {count_of(pairs, 'seed')} can tell from chance."
        case "better":
            return f"That is {side} {baseline}."
        case "worse":
            return f"But that is {side} {baseline}, which is the better choice here."


def _beside_matched(chosen: Row) -> str:
    """Return whether the choice of samples matters, if baselines with as many updates and no pruning were measured."""
    if chosen.matched is None or chosen.against_matched is None:
        return ""
    reached = f"As many updates without any pruning ({chosen.matched.name}) reach {_value(chosen.matched)}"
    match chosen.against_matched.verdict:
        case "better":
            return f"{reached}, so it is the choice of samples that helps."
        case "worse":
            return f"{reached}, which is better: not to prune costs no more time here."
        case "level":
            return f"{reached}: pruning is no better than that, as far as the seeds can tell."
        case "unknown":
            return f"{reached}."


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
