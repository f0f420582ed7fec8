"""The results of an experiment as tables of text: means, spreads, seeds, and paired differences to random selection."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso.analysis.wording import SEVERAL, duration, percent
from moso.evaluation.paired import PairedDifference, paired_difference
from moso.evaluation.standings import RANDOM, Entry, compared, entries, is_method
from moso.evaluation.summary import FULL
from moso.experiments.cells import Cell
from moso.experiments.places import place_of
from moso.report.run_views import with_unique_names
from moso.report.text_table import TextTable

Row = Mapping[str, Any]
MOSO = "moso"  # prefix of the names of all MoSo scores


@dataclass(frozen=True)
class Finished:
    """A finished cell of an experiment: its declaration, and its row of the table."""

    cell: Cell
    row: Row

    @property
    def label(self) -> str:
        """Name of the line that the cell belongs to, in plots along an axis of arms."""
        method, selector = self.cell.retraining.method, self.cell.retraining.selector
        name = entries([self.row])[0].name
        for contender in self.cell.arm.contenders:
            if contender.method == method and contender.selector in (None, selector):
                name = contender.label or name
        series = "" if method == RANDOM else self.cell.arm.series
        return f"{name}, {series}" if series else name


def by_arm(finished: Sequence[Finished]) -> dict[str, list[Finished]]:
    """Group finished cells by the name of their arm; arms of the same name are merged."""
    found: dict[str, list[Finished]] = {}
    for one in finished:
        found.setdefault(one.cell.arm.name, []).append(one)
    return found


def by_ratio(finished: Sequence[Finished]) -> dict[float, list[Finished]]:
    """Group finished cells by the share removed, ascending; all data belongs to every group."""
    ratios = sorted({one.row["ratio"] for one in finished if one.row["method"] != FULL})
    return {
        ratio: [one for one in finished if one.row["method"] == FULL or one.row["ratio"] == ratio] for ratio in ratios
    }


def entries_of(finished: Sequence[Finished]) -> list[Entry]:
    """Gather finished cells by seeds: all data first, then methods in the declared order, each by ascending ratio."""
    found = entries(with_unique_names([one.row for one in finished]))
    names = list(dict.fromkeys(entry.name for entry in found))
    return sorted(found, key=lambda entry: (entry.method != FULL, names.index(entry.name), entry.ratio))


def split_of(finished: Sequence[Finished]) -> str:
    """Return the name of the split on which the accuracies were measured."""
    return " and ".join(dict.fromkeys(place_of(one.cell.arm.data).split for one in finished))


def ratio_tables(finished: Sequence[Finished]) -> list[TextTable]:
    """Return one table per arm: one line per contender, with its metric and its difference to random at every ratio."""
    return [_ratio_table(name, own) for name, own in by_arm(finished).items()]


def _ratio_table(name: str, finished: Sequence[Finished]) -> TextTable:
    found = entries_of(finished)
    rows = compared(found, int(finished[0].row["test"]))
    ratios = sorted({row.entry.ratio for row in rows if row.entry.method != FULL})
    lines: dict[str, dict[float, list[str]]] = {}
    for row in rows:
        reached = reached_text(row.entry)
        if row.entry.method == FULL:
            lines["all data"] = {ratio: [reached, ""] for ratio in ratios}
            continue
        standing = "the baseline" if row.random is row.entry else difference_text(row.against_random)
        lines.setdefault(row.entry.name, {})[row.entry.ratio] = [reached, standing]
    columns = ["method", *(text for ratio in ratios for text in (f"{percent(ratio)} removed", "against random"))]
    texts = [[line, *(text for ratio in ratios for text in own.get(ratio, ["", ""]))] for line, own in lines.items()]
    note = (
        "Mean ± standard deviation (seeds); paired difference to the better random selection with its 95 % interval, "
        f"starred where better or worse. {SEVERAL}"
    )
    title = f"{split_of(finished)} {found[0].measure.heading}" + (f", {name}" if name else "")
    return TextTable(title, columns, texts, note)


def duel_tables(finished: Sequence[Finished]) -> list[TextTable]:
    """Return one table per arm and ratio: paired differences of each MoSo score to each other method.

    Tables without other methods, or without at least two common seeds, are left out.
    """
    tables = []
    for arm, own in by_arm(finished).items():
        found, test = entries_of(own), int(own[0].row["test"])
        for ratio in sorted({entry.ratio for entry in found if entry.method != FULL}):
            here = [entry for entry in found if entry.ratio == ratio]
            ours = [entry for entry in here if entry.method.startswith(MOSO)]
            others = [entry for entry in here if is_method(entry.method) and not entry.method.startswith(MOSO)]
            if not any(len(one.by_seed.keys() & other.by_seed.keys()) > 1 for one in ours for other in others):
                continue
            beside = len(ours) * len(others)
            texts = [[other.name, *(_duel(one, other, test, beside) for one in ours)] for other in others]
            title = f"MoSo above the other methods, {percent(ratio)} removed, points" + (f", {arm}" if arm else "")
            tables.append(TextTable(title, ["method", *(one.name for one in ours)], texts, _beside_note(beside)))
    return tables


def _beside_note(count: int) -> str:
    return f"95 % intervals, each by itself; stars allow for all {count} differences of the table (Bonferroni)."


def _duel(one: Entry, other: Entry, test: int, beside: int) -> str:
    found = paired_difference(one.by_seed, other.by_seed, measure=one.measure, test_samples=test, comparisons=beside)
    return difference_text(found)


def reached_text(entry: Entry) -> str:
    """Format mean, standard deviation and number of seeds."""
    return spread_text(entry.line.values)


def spread_text(values: Sequence[float]) -> str:
    """Format mean, standard deviation and number of values; empty without values."""
    if not values:
        return ""
    spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{spread} ({len(values)})"


def difference_text(difference: PairedDifference | None) -> str:
    """Format a difference with its interval, starred if the verdict is better or worse; empty for None."""
    if difference is None:
        return ""
    if difference.pairs < 2:
        return f"{difference.value:+.2f}"
    return f"{difference.value:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]{difference.star}"


def along(finished: Sequence[Finished]) -> dict[str, dict[float, dict[int, float]]]:
    """Return the results at one ratio by line, value of the arm and seed; arms without a value are left out."""
    found: dict[str, dict[float, dict[int, float]]] = {}
    for one in finished:
        if one.cell.arm.value is not None:
            # Random selection is the same cell in every series; keyed by seed, it counts once.
            found.setdefault(one.label, {}).setdefault(one.cell.arm.value, {})[one.row["seed"]] = one.row["value"]
    return found


def axis_tables(finished: Sequence[Finished], axis: str, reference: Mapping[str, float]) -> list[TextTable]:
    """Return tables with one line per contender and one column per value of the axis, for one ratio after the other.

    Args:
        finished: The finished cells.
        axis: Name of the axis.
        reference: The paper's numbers by value of the axis, at the ratio that is declared first.

    Returns:
        Per ratio the accuracies, the paired differences to random selection, and those to the first value of the axis.
    """
    tables = []
    for ratio, own in by_ratio(finished).items():
        printed = reference if ratio == own[0].cell.arm.ratios[0] else {}
        tables.append((ratio, _axis_tables(own, axis, printed)))
    return _with_ratios(tables)


def _with_ratios(tables: Sequence[tuple[float, Sequence[TextTable]]]) -> list[TextTable]:
    """Return the tables of all ratios, with the ratio in their titles if there are several."""
    where = {ratio: f", {percent(ratio)} removed" if len(tables) > 1 else "" for ratio, _ in tables}
    return [replace(table, title=table.title + where[ratio]) for ratio, own in tables for table in own]


def _axis_tables(finished: Sequence[Finished], axis: str, reference: Mapping[str, float]) -> list[TextTable]:
    lines = along(finished)
    values = sorted({value for own in lines.values() for value in own})
    texts = [
        [name, *(spread_text(list(own.get(value, {}).values())) for value in values)] for name, own in lines.items()
    ]
    printed = [f"{reference[f'{value:g}']:.2f}" if f"{value:g}" in reference else "" for value in values]
    if any(printed):
        texts.append(["the paper's", *printed])
    columns = [axis, *(f"{value:g}" for value in values)]
    note = "Mean ± standard deviation (seeds)."
    tables = [TextTable(f"{split_of(finished)} accuracy in %", columns, texts, note)]
    standing: dict[str, dict[float, str]] = {}
    for own in by_arm(finished).values():
        value = own[0].cell.arm.value
        if value is None:
            continue
        labels = {one.row["key"]: one.label for one in own}
        named = {(one.row["method"], one.row["selector"]): labels[one.row["key"]] for one in own}
        for row in compared(entries_of(own), int(own[0].row["test"])):
            if row.against_random is not None:
                name = named[row.entry.method, row.entry.selector]
                standing.setdefault(name, {})[value] = difference_text(row.against_random)
    if standing:
        texts = [[name, *(own_value.get(value, "") for value in values)] for name, own_value in standing.items()]
        tables.append(TextTable("paired difference to random selection, points", columns, texts, SEVERAL))
    return [*tables, *_against_first(lines, values, axis, int(finished[0].row["test"]))]


def _against_first(
    lines: Mapping[str, Mapping[float, Mapping[int, float]]], values: Sequence[float], axis: str, test: int
) -> list[TextTable]:
    """Return paired differences to the first value of the axis; none if random selection changes along it."""
    random = [list(own.values()) for name, own in lines.items() if name.startswith(RANDOM)]
    if len(values) < 2 or not random or any(seeds != own[0] for own in random for seeds in own):
        return []
    ours = {name: own for name, own in lines.items() if not name.startswith(RANDOM) and values[0] in own}
    pairs = sum(value in own for own in ours.values() for value in values[1:])
    texts = []
    for name, own in ours.items():
        found = (
            paired_difference(own.get(value, {}), own[values[0]], test_samples=test, comparisons=pairs)
            for value in values[1:]
        )
        texts.append([name, *map(difference_text, found)])
    columns = [axis, *(f"{value:g}" for value in values[1:])]
    title = f"paired difference to {axis}: {values[0]:g}, points"
    return [TextTable(title, columns, texts, _beside_note(pairs))] if texts else []


def class_accuracies(finished: Sequence[Finished]) -> dict[str, NDArray[np.float64]]:
    """Return the accuracy of every class in % at one ratio, the mean over seeds, ``[classes]``, by contender.

    All data is one of them.
    """
    found: dict[str, list[Any]] = {}
    for one in finished:
        name = entries([one.row])[0].name
        found.setdefault(name, []).append(100 * np.array(one.row["class_correct"]) / np.array(one.row["class_count"]))
    return {name: np.mean(own, axis=0) for name, own in found.items()}


def class_tables(finished: Sequence[Finished], reference: Mapping[str, float]) -> list[TextTable]:
    """Return Spearman's correlation of class accuracies before and after pruning, and changes of classes, per ratio."""
    return _with_ratios([(ratio, _class_tables(own, reference)) for ratio, own in by_ratio(finished).items()])


def _class_tables(finished: Sequence[Finished], reference: Mapping[str, float]) -> list[TextTable]:
    means = class_accuracies(finished)
    before = means.pop("all data", None)
    if before is None:
        return []
    texts = []
    for name, after in means.items():
        change = after - before
        from scipy.stats import spearmanr  # imported here: it takes half a second

        rank = float(spearmanr(before, after).statistic)
        texts.append([name, f"{rank:.3f}", f"{change.mean():+.1f}", f"{change.min():+.1f}", f"{change.max():+.1f}"])
    for name, value in reference.items():
        texts.append([f"the paper's {name}", f"{value:.3f}", "", "", ""])
    columns = ["method", "Spearman", "mean change", "worst class", "best class"]
    return [TextTable("accuracy of the classes before and after pruning, points", columns, texts)]


def detection_tables(finished: Sequence[Finished]) -> list[TextTable]:
    """Return one table per arm with known wrong labels: how well scores find them, and how many are kept."""
    found = []
    for name, own in by_arm(finished).items():
        rows = with_unique_names([one.row for one in own if "wrong_kept" in one.row])
        if not rows:
            continue
        kept: dict[tuple[str, float], list[float]] = {}
        scored: dict[str, list[tuple[float, float]]] = {}
        for row in rows:
            entry = entries([row])[0].name
            kept.setdefault((entry, row["ratio"]), []).append(100 * row["wrong_kept"])
            if "auroc" in row:
                scored.setdefault(entry, []).append((row["auroc"], 100 * row["precision"]))
        ratios = sorted({ratio for _, ratio in kept})
        texts = []
        for entry in dict.fromkeys(entry for entry, _ in kept):
            orders = np.array(scored.get(entry, []))
            said = ["", ""] if not len(orders) else [f"{orders[:, 0].mean():.3f}", f"{orders[:, 1].mean():.1f}"]
            texts.append([entry, *said, *(spread_text(kept.get((entry, ratio), [])) for ratio in ratios)])
        left = (f"wrong in what is kept, {percent(ratio)} removed" for ratio in ratios)
        columns = ["method", "AUROC", "precision in %", *left]
        note = (
            "AUROC of the score as an order of suspicion, precision at as many as are wrong; the share of wrong labels "
            "in what is kept, in %. Means over seeds."
        )
        found.append(TextTable("wrong labels" + (f", {name}" if name else ""), columns, texts, note))
    return found


def cost_seconds(row: Row) -> float:
    """Return the seconds before retraining: surrogates, references, measuring, choosing."""
    return float(row["seconds"].get("surrogates", 0.0) + row["seconds"].get("method", 0.0))


def cost_tables(finished: Sequence[Finished]) -> list[TextTable]:
    """Return a table of each method's cost before retraining, and its metric."""
    taken: dict[str, list[float]] = {}
    found = [entry for entry in entries_of(finished) if entry.method != FULL]
    for one in finished:
        taken.setdefault(entries([one.row])[0].name, []).append(cost_seconds(one.row))
    ratios = sorted({entry.ratio for entry in found})
    reached = {(entry.name, entry.ratio): reached_text(entry) for entry in found}
    names = sorted(dict.fromkeys(entry.name for entry in found), key=lambda name: float(np.mean(taken[name])))
    texts = [
        [name, duration(float(np.mean(taken[name]))), *(reached.get((name, ratio), "") for ratio in ratios)]
        for name in names
    ]
    columns = ["method", "time, surrogates included", *(f"{percent(ratio)} removed" for ratio in ratios)]
    note = "Seconds of one process. Each method is charged as if it were the only one."
    return [TextTable("cost and accuracy in %", columns, texts, note)]
