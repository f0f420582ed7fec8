"""The plots of an experiment, from the finished cells of its table alone."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from moso.evaluation.standings import RANDOM, compared, entries, is_method
from moso.evaluation.summary import FULL, Line
from moso.experiments.declaration import Experiment
from moso.report.comparison.compare_plots import differences_figure, reached_figure
from moso.report.experiments.experiment_tables import (
    Finished,
    along,
    by_arm,
    by_ratio,
    class_accuracies,
    cost_seconds,
    entries_of,
    split_of,
)
from moso.report.plots import LIGHT, Theme, accuracy_figure, blank, house_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = 10
_MARKERS = "osD^vP*X"
# How many names fit above each other, and beside each other, in the plot of costs.
_NAMES_HIGH, _NAMES_WIDE = 24, 4


def figures_of(experiment: Experiment, finished: Sequence[Finished]) -> dict[str, "Figure"]:
    """Return the plots of an experiment that have data, by the end of their file name."""
    match experiment.plot:
        case "arms":
            lines = {end: along(own) for end, own in _by_file(finished).items()}
            return {end: axis_figure(own, experiment.axis) for end, own in lines.items() if own}
        case "classes":
            means = {end: class_accuracies(own) for end, own in _by_file(finished).items()}
            return {end: classes_figure(own) for end, own in means.items() if "all data" in own and len(own) > 1}
        case "cost":
            found = [one for one in finished if one.row["method"] != FULL]
            return {"": cost_figure(found)} if found else {}
        case _:
            return _ratio_figures(finished)


def _by_file(finished: Sequence[Finished]) -> dict[str, list[Finished]]:
    """Group finished cells by ratio, keyed by the end of the file name: no end where there is one ratio only."""
    groups = by_ratio(finished)
    return {f"-{round(100 * ratio)}-removed" if len(groups) > 1 else "": own for ratio, own in groups.items()}


def _ratio_figures(finished: Sequence[Finished]) -> dict[str, "Figure"]:
    found: dict[str, Figure] = {}
    for name, own in by_arm(finished).items():
        entries_here = entries_of(own)
        if all(entry.method == FULL for entry in entries_here):
            continue
        rows = compared(entries_here, int(own[0].row["test"]))
        # Part of a file name and of a URL, where a per cent sign would start an escape sequence.
        end = f"-{re.sub('[^a-z0-9]+', '-', name.lower())}" if name else ""
        lines, split = [entry.line for entry in entries_here], split_of(own)
        # A line plot needs several ratios, and few enough lines to tell them apart.
        ratios = len({line.ratio for line in lines if line.method != FULL})
        drawn = ratios > 1 and len({e.name for e in entries_here}) <= LINES
        found[end] = accuracy_figure(lines, split=split) if drawn else reached_figure(rows, split=split)
        if ratios > 2 and not drawn:
            found[f"{end}-highest"] = accuracy_figure(highest(lines), split=split)
        if any(row.against_random is not None and row.entry.method != FULL for row in rows):
            found[f"{end}-differences"] = differences_figure(rows, split=split)
    return found


def highest(lines: Sequence[Line]) -> list[Line]:
    """Return all data, random selection, and the methods that are highest at the largest share removed.

    Only methods above random selection, and no more of them than can be told apart in one plot, in their given order.

    Args:
        lines: The values of all methods at all ratios.

    Example:
        >>> values = {"random": 50.0, "moso-rank": 54.0, "el2n": 22.0, "rs2": 59.0}
        >>> own = [Line(method, "top", ratio, (value,)) for method, value in values.items() for ratio in (0.4, 0.8)]
        >>> [line.name for line in highest(own) if line.ratio == 0.8]
        ['random (top)', 'moso-rank (top)']
    """
    most = max(line.ratio for line in lines)
    reached = {line.name: line for line in lines if line.ratio == most}
    random = {name: line for name, line in reached.items() if line.method == RANDOM}
    floor = max((line.merit for line in random.values()), default=-np.inf)
    above = [line for line in reached.values() if is_method(line.method) and line.merit > floor]
    above.sort(key=lambda line: -line.merit)
    drawn = {*random, *(line.name for line in above[: LINES - len(random)])}
    return [line for line in lines if line.method == FULL or line.name in drawn]


def axis_figure(
    lines: Mapping[str, Mapping[float, Mapping[int, float]]], axis: str, *, theme: Theme = LIGHT
) -> "Figure":
    """Plot the accuracy along an axis of arms: one line per contender, with standard deviations over seeds.

    Args:
        lines: Accuracy in % by line, value of the axis, and seed.
        axis: Name of the axis.
        theme: The colours.

    Example:
        >>> len(axis_figure({"moso": {1.0: {0: 74.0, 1: 74.5}, 5.0: {0: 75.0}}}, "partitions").axes)
        1
    """
    values = sorted({value for own in lines.values() for value in own})
    places = {value: number for number, value in enumerate(values)}
    with house_style(theme):
        figure = blank(8.6, 4.3, layout="constrained")
        axes = figure.add_subplot()
        for number, (name, by_seed) in enumerate(lines.items()):
            own = {value: list(seeds.values()) for value, seeds in by_seed.items()}
            known = sorted(own)
            axes.errorbar(
                [places[value] + 0.04 * (number - len(lines) / 2) for value in known],
                [float(np.mean(own[value])) for value in known],
                yerr=[float(np.std(own[value], ddof=1)) if len(own[value]) > 1 else 0.0 for value in known],
                label=name,
                color=_colour(name, number, theme),
                marker=_MARKERS[number % len(_MARKERS)],
                linestyle="--" if name.startswith("random") else "-",
                markersize=5.5,
                linewidth=1.6,
                capsize=3,
            )
        axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        axes.set_xlabel(axis)
        axes.set_ylabel("test accuracy in %")
        axes.grid(axis="y", linewidth=0.7)
        axes.set_axisbelow(True)
        figure.legend(loc="outside right upper", frameon=False)
    return figure


def _colour(name: str, number: int, theme: Theme) -> str:
    if name.startswith("random"):
        return theme.random[number % len(theme.random)]
    return theme.series[number % len(theme.series)]


def classes_figure(means: Mapping[str, NDArray[np.float64]], *, theme: Theme = LIGHT) -> "Figure":
    """Plot the accuracy of every class after pruning against before: one panel per contender."""
    before = means["all data"]
    others = {name: after for name, after in means.items() if name != "all data"}
    columns = min(3, len(others))
    rows = -(-len(others) // columns)
    with house_style(theme):
        figure = blank(8.6, 3.0 * rows, layout="constrained")
        for number, (name, after) in enumerate(others.items()):
            axes = figure.add_subplot(rows, columns, number + 1)
            axes.plot([0, 100], [0, 100], color=theme.faint, linewidth=1.0)
            axes.scatter(before, after, s=10, color=_colour(name, number, theme), linewidths=0)
            axes.set_title(name, fontsize=10.5)
            axes.set_xlim(0, 100)
            axes.set_ylim(0, 100)
        figure.supxlabel("accuracy of a class with all data, %", fontsize=10)
        figure.supylabel("after pruning, %", fontsize=10)
    return figure


def apart(points: Mapping[str, tuple[float, float]], high: int, wide: int) -> dict[str, float]:
    """Return the heights of names beside their points, moved up as little as avoids overlaps.

    Args:
        points: Position of each point by name.
        high: How many names fit above each other in the plot.
        wide: How many names fit beside each other.

    Example:
        >>> apart({"a": (0.0, 10.0), "b": (0.0, 10.1), "c": (9.0, 10.1), "d": (0.0, 20.0)}, high=10, wide=4)
        {'a': 10.0, 'b': 11.0, 'c': 10.1, 'd': 20.0}
    """
    width, height = np.ptp(list(points.values()), axis=0) / (wide, high)
    found: dict[str, float] = {}
    for name, (x, y) in sorted(points.items(), key=lambda pair: pair[1][1]):
        near = [found[other] for other in found if abs(points[other][0] - x) < width]
        found[name] = float(max([y, *(taken + height for taken in near)]))
    return found


def cost_figure(finished: Sequence[Finished], *, theme: Theme = LIGHT) -> "Figure":
    """Plot the accuracy at the largest ratio against the time before retraining: one dot per contender."""
    largest = max(one.row["ratio"] for one in finished)
    points: dict[str, list[tuple[float, float]]] = {}
    for one in finished:
        if one.row["ratio"] == largest:
            points.setdefault(entries([one.row])[0].name, []).append((cost_seconds(one.row), one.row["value"]))
    with house_style(theme):
        figure = blank(8.6, 4.6, layout="constrained")
        axes = figure.add_subplot()
        means = {name: (np.mean(own, axis=0) / (60, 1)).tolist() for name, own in points.items()}
        heights = apart(means, _NAMES_HIGH, _NAMES_WIDE)
        for name, (minutes, reached) in means.items():
            # Names identify the methods; colours only distinguish MoSo from the others.
            colour = _colour(name, 0 if name.startswith("moso") else 1, theme)
            axes.scatter([minutes], [reached], s=34, color=colour, linewidths=0)
            # A thin line connects a name with its dot, because overlapping names were moved.
            axes.annotate(
                name,
                xy=(minutes, reached),
                xytext=(14, heights[name]),
                textcoords=("offset points", "data"),
                va="center",
                fontsize=8.5,
                arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8, "relpos": (0, 0.5)},
            )
        axes.margins(x=0.05)
        axes.set_xlim(right=axes.get_xlim()[1] * 1.3)  # names need room
        axes.set_xlabel("minutes of one process before retraining, surrogates included")
        axes.set_ylabel(f"test accuracy in %, {100 * largest:g} % removed")
        axes.grid(linewidth=0.7)
        axes.set_axisbelow(True)
    return figure
