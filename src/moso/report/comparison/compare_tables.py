"""A comparison as tables of text, for the terminal and for Markdown, each with a note on its columns."""

import math
from collections.abc import Mapping, Sequence

from moso.analysis.comparison import Comparison
from moso.analysis.wording import SEVERAL, count_of, duration, percent
from moso.evaluation.matching import match_words
from moso.evaluation.overlap import Likeness, jaccard_by_chance
from moso.evaluation.standings import Row, weighted_note
from moso.evaluation.summary import FULL
from moso.report.text_table import TextTable
from moso.selection import kept_count

# Largest square table that is shown; for more names, only the most and the least similar pairs are listed.
SQUARE = 12
ALIKE = 3


def tables(comparison: Comparison) -> list[TextTable]:
    """Return all tables of a comparison that have data."""
    likeness = [overlap(comparison, ratio) for ratio in comparison.overlap]
    return [*_standing(comparison), *likeness, *_correlations(comparison)]


def main_tables(comparison: Comparison) -> list[TextTable]:
    """Return the most important tables; of the overlap tables only that of the largest ratio."""
    likeness = [overlap(comparison, max(comparison.overlap))] if comparison.overlap else []
    return [*_standing(comparison), *likeness, *_correlations(comparison)]


def _standing(comparison: Comparison) -> list[TextTable]:
    found = [reached(comparison), *([side_by_side(comparison.by_match)] if comparison.others else [])]
    if any(row.against_random is not None for row in comparison.rows):
        found.append(against_random(comparison))
    if comparison.reaches:
        found.append(prunable(comparison))
    if any(cost.seconds for cost in comparison.costs):
        found.append(costs(comparison))
    return found


def _correlations(comparison: Comparison) -> list[TextTable]:
    if comparison.correlations is None:
        return []
    note = "Spearman's rank correlation of the scores as stored (high means keep), mean over seeds."
    return [square("how alike scores rank the samples", comparison.correlations, note)]


def overlap(comparison: Comparison, ratio: float) -> TextTable:
    """Return the table of samples kept in common at a ratio."""
    chance = jaccard_by_chance(kept_count(comparison.samples, ratio) / comparison.samples)
    note = f"Jaccard's index, mean over seeds; two random selections would share {chance:.2f}."
    return square(f"what is kept in common with {percent(ratio)} removed", comparison.overlap[ratio], note)


def reached(comparison: Comparison) -> TextTable:
    """Return the table of each method's metric at each ratio."""
    measure, ratios = comparison.measure, comparison.ratios
    rows = [
        [name, *(own[ratio].entry.line.text if ratio in own else "" for ratio in ratios)]
        for name, own in _by_name(comparison.rows).items()
    ]
    full = next((row.entry for row in comparison.rows if row.entry.method == FULL), None)
    if full is not None:
        rows.append([full.name, *[full.line.text] * len(ratios)])
    counts = sorted({len(row.entry.by_seed) for row in comparison.rows})
    seeds = count_of(counts[-1], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    spread = "one seed" if counts[-1] == 1 else f"mean ± standard deviation of {seeds}"
    better = "" if measure.better == "higher" else "; lower is better"
    made = [f"{spread[0].upper()}{spread[1:]}{better}.", *(f"{one}." for one in comparison.made)]
    note = " ".join([*made, weighted_note(row.entry for row in comparison.rows)]).strip()
    return TextTable(f"test {measure.heading}", _columns(ratios), rows, note)


def side_by_side(rows_by_match: Mapping[str, Sequence[Row]]) -> TextTable:
    """Return the table of each method at each ratio under everything that retrainings keep equal.

    Args:
        rows_by_match: Rows by what their retrainings keep equal, those of all other tables first.
    """
    by_match = {match: _by_name(rows) for match, rows in rows_by_match.items()}
    ratios = sorted({ratio for own in by_match.values() for at in own.values() for ratio in at})
    cells = [(ratio, match) for ratio in ratios for match in by_match]
    names = dict.fromkeys(name for own in by_match.values() for name in own)
    rows = [[name, *(_with_gain(by_match[match].get(name, {}).get(ratio)) for ratio, match in cells)] for name in names]
    said = "; ".join(f"{match}: {match_words(match)}" for match in by_match)
    note = (
        f"Means over seeds, in brackets the difference to the better random selection under the same. {said}. "
        "The first is that of all other tables."
    )
    columns = ["share removed", *(f"{percent(ratio)}, {match}" for ratio, match in cells)]
    heading = next(row for rows in rows_by_match.values() for row in rows).entry.measure.heading
    return TextTable(f"test {heading} by what retraining keeps equal", columns, rows, note)


def _with_gain(row: Row | None) -> str:
    if row is None:
        return ""
    digits = 1 if row.entry.measure.unit == "%" else 3
    mean = f"{row.entry.line.mean:.{digits}f}"
    return mean if row.against_random is None else f"{mean} ({row.against_random.value:+.{digits}f})"


def against_random(comparison: Comparison) -> TextTable:
    """Return the table of paired differences to the better random selection."""
    measure, ratios = comparison.measure, comparison.ratios
    rows, baselines = [], {}
    for name, own in _by_name(comparison.rows).items():
        if any(own[ratio].against_random is not None for ratio in own):
            rows.append([name, *(_against(own[ratio]) if ratio in own else "" for ratio in ratios)])
    for row in comparison.rows:
        if row.random is not None:
            baselines[row.entry.ratio] = row.random
    beaten = ", ".join(f"{entry.name} at {percent(ratio)}" for ratio, entry in sorted(baselines.items()))
    unit = "points of " if measure.unit == "%" else ""
    note = (
        f"Differences in {unit}{measure.title}, seed by seed, with 95 % intervals over seeds, starred where better "
        f"or worse. {SEVERAL} The baseline is the better random selection: {beaten}."
    )
    return TextTable("against random selection of the same size", _columns(ratios), rows, note)


def prunable(comparison: Comparison) -> TextTable:
    """Return the table of how much each method can remove within the tolerance."""
    measure, tolerance = comparison.measure, comparison.tolerance
    what = f"{tolerance:g} {'point' if tolerance == 1 else 'points'}" if measure.unit == "%" else f"{tolerance:g} %"
    rows = []
    for one in comparison.reaches:
        seeds = "" if one.lowest == one.highest else f"{one.lowest} to {one.highest}"
        rows.append([one.name, str(one.by_mean), seeds])
    note = (
        f"The largest share whose mean is no more than {what} worse than all data. Between two ratios that were "
        "retrained, and from nothing lost at 0, the loss is taken to lie on a straight line; nothing is claimed beyond "
        "the largest, which ≥ marks."
    )
    return TextTable(f"what can go within {what} of all data", ["method", "removable", "single seeds"], rows, note)


def costs(comparison: Comparison) -> TextTable:
    """Return the table of each method's cost beyond the surrogates."""
    rows = []
    for one in comparison.costs:
        peak = "" if one.peak is None else f"{one.peak / 2**20:,.0f} MiB"
        parts = (duration(part) for part in (one.networks, one.measuring, one.choosing, one.seconds))
        rows.append([f"{one.method} ({one.selector})", *parts, peak])
    note = (
        "Seconds of computation for one seed, each method as if it were the only one: networks trained on all data, "
        "evidence measured of trained networks, the score and its selections at all ratios. The surrogates are not "
        "counted. Memory is the largest peak of any one piece of work beyond what its process held before."
    )
    columns = ["beyond the surrogates", "networks", "measuring", "choosing", "in all", "memory"]
    return TextTable("what each method takes", columns, rows, note)


def square(title: str, likeness: Likeness, note: str) -> TextTable:
    """Return a table of every pair of names, with numbered columns; for many names, only the extreme pairs."""
    if len(likeness.names) <= SQUARE:
        rows = [
            [f"{number} {name}", *("–" if math.isnan(value) else f"{value:.2f}" for value in values)]  # noqa: RUF001
            for number, (name, values) in enumerate(zip(likeness.names, likeness.values.tolist(), strict=True), 1)
        ]
        return TextTable(title, ["", *(str(number) for number in range(1, len(rows) + 1))], rows, note)
    pairs = likeness.pairs()
    shown = [*pairs[:ALIKE], *pairs[-ALIKE:]]
    rows = [[f"{first} – {second}", f"{value:.2f}"] for first, second, value in shown]  # noqa: RUF001
    return TextTable(title, ["the most and the least alike", ""], rows, note)


def _by_name(rows: Sequence[Row]) -> dict[str, dict[float, Row]]:
    found: dict[str, dict[float, Row]] = {}
    for row in rows:
        if row.entry.method != FULL:
            found.setdefault(row.entry.name, {})[row.entry.ratio] = row
    return found


def _columns(ratios: Sequence[float]) -> list[str]:
    return ["share removed", *(percent(ratio) for ratio in ratios)]


def _against(row: Row) -> str:
    if row.against_random is None:
        return "the baseline" if row.random is row.entry else ""
    return f"{row.against_random}{row.against_random.star}"
