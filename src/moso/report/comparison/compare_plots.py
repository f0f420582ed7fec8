"""Plots of a comparison: differences to random selection, and similarity of methods."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from moso.analysis.wording import percent
from moso.evaluation.overlap import Likeness
from moso.evaluation.standings import Entry, Row, is_method
from moso.evaluation.summary import FULL
from moso.report.plots import LIGHT, Theme, blank, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = 3
NARROWEST = 2.0  # smallest span of a panel's axis, in points
# Largest table with numbers in its cells; in larger ones they would be too small to read.
NUMBERED = 12


def differences_figure(rows: Sequence[Row], *, split: str = "test", theme: Theme = LIGHT) -> "Figure":
    """Plot paired differences to random selection with 95 % intervals.

    There is one panel per ratio, one row per method, and one dot per seed.
    """
    shown = []
    for row in rows:
        if row.entry.method != FULL and row.against_random is not None and row.random is not None:
            difference, others = row.against_random, row.random.by_seed
            each = [value - others[seed] for seed, value in row.entry.by_seed.items() if seed in others]
            margin = difference.margin if difference.pairs > 1 else None
            shown.append(Mark(row.entry, difference.value, margin, each))
    measure = rows[0].entry.measure
    unit = "points of " if measure.unit == "%" else ""
    return _panels(shown, 0.0, f"difference to random selection, {unit}{split} {measure.title}", theme)


def reached_figure(rows: Sequence[Row], *, split: str = "test", theme: Theme = LIGHT) -> "Figure":
    """Plot the metric in the same form: one panel per ratio, standard deviations as bars, all data as a line."""
    shown = []
    for row in rows:
        if row.entry.method != FULL:
            line = row.entry.line
            shown.append(Mark(row.entry, line.mean, line.spread if len(line.values) > 1 else None, line.values))
    full = next((row.entry.line.mean for row in rows if row.entry.method == FULL), None)
    said = "" if full is None else "; the line is all data"
    return _panels(shown, full, f"{split} {rows[0].entry.measure.heading}{said}", theme)


@dataclass(frozen=True)
class Mark:
    """One method in one panel: its value, its margin, and the values of the seeds."""

    entry: Entry
    value: float
    margin: float | None
    each: Sequence[float]


def _panels(marks: Sequence[Mark], line: float | None, label: str, theme: Theme) -> "Figure":
    ratios = sorted({mark.entry.ratio for mark in marks})
    names = list(dict.fromkeys(mark.entry.name for mark in marks))
    columns = min(PANELS, max(1, len(ratios)))
    lines = -(-len(ratios) // columns)
    with house_style(theme):
        height = lines * (0.26 * len(names) + 0.9) + 0.3
        figure = blank(8.6, height, layout="constrained")
        for number, ratio in enumerate(ratios):
            axes = figure.add_subplot(lines, columns, number + 1)
            if line is not None:
                axes.axvline(line, color=theme.ink, linewidth=1.0)
            for mark in marks:
                if mark.entry.ratio == ratio:
                    _draw(axes, mark, names.index(mark.entry.name), theme)
            _finish(axes, names, percent(ratio), labelled=number % columns == 0)
            if marks[0].entry.measure.unit == "%":
                _widen(axes)
        figure.supxlabel(label, fontsize=10)
    return figure


def _draw(axes: "Axes", mark: Mark, place: int, theme: Theme) -> None:
    colour = theme.series[0] if is_method(mark.entry.method) else theme.random[0]
    axes.scatter(mark.each, [place] * len(mark.each), s=9, color=colour, alpha=0.45, linewidths=0)
    margin = None if mark.margin is None else [mark.margin]
    style = {"fmt": "o", "markersize": 5, "elinewidth": 1.4, "capsize": 2.5}
    axes.errorbar([mark.value], [place], xerr=margin, color=colour, **style)  # type: ignore[arg-type]


def _widen(axes: "Axes") -> None:
    """Widen a narrow axis, so that tenths of a point do not look like points."""
    low, high = axes.get_xlim()
    more = max(0.0, NARROWEST - (high - low)) / 2
    axes.set_xlim(low - more, high + more)


def _finish(axes: "Axes", names: Sequence[str], removed: str, labelled: bool) -> None:
    axes.set_title(f"{removed} removed", fontsize=10.5)
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="x", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(left=False, labelleft=labelled)
    axes.spines["left"].set_visible(False)
    axes.locator_params(axis="x", nbins=5)


def likeness_figure(panels: Sequence[tuple[str, Likeness]], *, theme: Theme = LIGHT) -> "Figure":
    """Plot one coloured square table per panel: the overlap of kept samples, or rank correlations.

    Blue means similar, red opposite; cells with NaN are empty.

    Args:
        panels: Titles and tables.
        theme: The colours.
    """
    count = max((len(likeness.names) for _, likeness in panels), default=1)
    side = min(11.0, 1.9 + 0.42 * count)
    with house_style(theme):
        figure = blank(side + 3.0, max(1, len(panels)) * side, layout="constrained")
        for number, (title, likeness) in enumerate(panels):
            axes = figure.add_subplot(len(panels), 1, number + 1)
            signed = bool((likeness.values < 0).any())
            image = axes.imshow(likeness.values, cmap="RdBu" if signed else "Blues", vmin=-1 if signed else 0, vmax=1)
            places = range(len(likeness.names))
            axes.set_xticks(places, likeness.names, rotation=45, ha="right", fontsize=8.5)
            axes.set_yticks(places, likeness.names, fontsize=8.5)
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
            axes.set_title(title, fontsize=10.5, loc="left")
            if len(likeness.names) <= NUMBERED:
                _write_numbers(axes, likeness)
            figure.colorbar(image, ax=axes, shrink=0.7)
    return figure


def _write_numbers(axes: "Axes", likeness: Likeness) -> None:
    for row, values in enumerate(likeness.values.tolist()):
        for column, value in enumerate(values):
            if not np.isnan(value):
                colour = "#ffffff" if abs(value) > 0.6 else "#22262e"
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8, color=colour)
