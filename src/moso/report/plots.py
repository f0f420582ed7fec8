"""Plots as matplotlib figures and as PNG bytes; the same numbers give the same bytes.

Figures are made without pyplot, so there is no window system and no global list of figures to close.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.analysis.wording import percent
from moso.evaluation.standings import is_method
from moso.evaluation.summary import Line
from moso.files import replacing
from moso.report.run_views import drawn_at_random, ordered_lines, plotted_scores
from moso.results.reading import Run
from moso.results.retrainings import FULL

if TYPE_CHECKING:  # matplotlib takes half a second to import; only functions that draw import it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOTS_PER_INCH = 160
BINS = 60


@dataclass(frozen=True)
class Theme:
    """The colours of a plot; `series` are distinguishable for colour-blind readers (after Okabe and Ito)."""

    paper: str
    ink: str
    faint: str
    series: tuple[str, ...]
    random: tuple[str, ...]


LIGHT = Theme(
    paper="#ffffff",
    ink="#22262e",
    faint="#d9dde3",
    series=("#0072b2", "#d55e00", "#009e73", "#b0569a", "#c98a00", "#5b4fbf", "#3aa6d8", "#8c4a2f"),
    random=("#6b7280", "#9aa1ab"),
)
_MARKERS = "osD^vP*X"
_DASHES = ("-", "--", "-.", ":")


@contextmanager
def house_style(theme: Theme) -> Iterator[None]:
    """Draw with matplotlib's default style in the colours of a theme, whatever the user's own settings."""
    colours = {
        "figure.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "axes.edgecolor": theme.ink,
        "axes.labelcolor": theme.ink,
        "text.color": theme.ink,
        "xtick.color": theme.ink,
        "ytick.color": theme.ink,
        "legend.labelcolor": theme.ink,
        "grid.color": theme.faint,
        "text.parse_math": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 10,
    }
    import matplotlib.style

    with matplotlib.style.context(["default", colours]):
        yield


def blank(width: float, height: float, **settings: Any) -> "Figure":
    """Return an empty figure of this size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=DOTS_PER_INCH, **settings)


def accuracy_figure(rows: Sequence[Line], *, split: str = "test", theme: Theme = LIGHT, title: str = "") -> "Figure":
    """Plot the metric against the share removed: one line per method, with standard deviations over several seeds.

    Args:
        rows: The values, with training on all data if it was measured.
        split: Name of the split for the axis.
        theme: The colours.
        title: Title of the plot.

    Example:
        >>> rows = [Line("moso", "top", ratio, (90.0, 91.0)) for ratio in (0.4, 0.8)] + [
        ...     Line("full", "none", 0.0, (95.0,))
        ... ]
        >>> [text.get_text() for text in accuracy_figure(rows).legends[0].get_texts()]
        ['all data', 'moso (top)']
    """
    with house_style(theme):
        figure = blank(8.6, 4.3, layout="constrained")
        axes = figure.add_subplot()
        pairs = list(dict.fromkeys((row.method, row.selector) for row in rows if row.method != FULL))
        ratios = sorted({row.ratio for row in rows if row.method != FULL})
        full = next((row for row in rows if row.method == FULL), None)
        if full is not None:
            axes.axhspan(full.mean - full.spread, full.mean + full.spread, color=theme.ink, alpha=0.12, linewidth=0)
            axes.axhline(full.mean, color=theme.ink, linewidth=1.2, label="all data")
        # Methods are shifted sideways, so that error bars at one ratio do not hide each other.
        room = min(np.diff(ratios), default=0.2) * 0.18
        styles = _styles(pairs, theme)
        for number, pair in enumerate(pairs):
            own = sorted((row for row in rows if (row.method, row.selector) == pair), key=lambda row: row.ratio)
            shift = room * (number / (len(pairs) - 1) - 0.5) if len(pairs) > 1 else 0.0
            colour, marker, dashes = styles[pair]
            axes.errorbar(
                [row.ratio + shift for row in own],
                [row.mean for row in own],
                # One seed has no spread: not a bar of length zero, which would be a bar.
                yerr=[row.spread if len(row.values) > 1 else np.nan for row in own],
                label=own[0].name,
                color=colour,
                marker=marker,
                linestyle=dashes,
                markersize=5.5,
                linewidth=1.6,
                elinewidth=1.1,
                capsize=3,
            )
        axes.set_xticks(ratios, [percent(ratio) for ratio in ratios])
        axes.set_xlabel("share of the training data removed")
        axes.set_ylabel(f"{split} {rows[0].measure.heading}" if rows else "")
        axes.grid(axis="y", linewidth=0.7)
        axes.set_axisbelow(True)
        if title:
            axes.set_title(title, loc="left", fontsize=12)
        if full is not None or pairs:
            figure.legend(loc="outside right upper", frameon=False)
    return figure


def _styles(pairs: Sequence[tuple[str, str]], theme: Theme) -> dict[tuple[str, str], tuple[str, str, str]]:
    """Return colour, marker and dashes of every pair; random selection and baselines are grey and dashed."""
    styles = {}
    scored = [pair for pair in pairs if is_method(pair[0])]
    for number, pair in enumerate(scored):
        turn, place = divmod(number, len(theme.series))
        styles[pair] = theme.series[place], _MARKERS[number % len(_MARKERS)], _DASHES[turn % len(_DASHES)]
    for number, pair in enumerate(pair for pair in pairs if not is_method(pair[0])):
        styles[pair] = theme.random[number % len(theme.random)], "Xs*P"[number % 4], ("--", ":", "-.", "--")[number % 4]
    return styles


def scores_figure(
    scores: Mapping[str, NDArray[np.float64]],
    *,
    drawn: NDArray[np.bool_] | None = None,
    theme: Theme = LIGHT,
) -> "Figure":
    """Plot one histogram per score, with a mark at zero.

    The outermost 0.5 % at each end are counted in the outermost bars, so that outliers do not compress the rest.

    Args:
        scores: One array ``[samples]`` per score.
        drawn: Whether each label was drawn at random, ``[samples]``; these samples have another colour.
        theme: The colours.
    """
    columns = min(3, max(1, len(scores)))
    rows = -(-len(scores) // columns)
    with house_style(theme):
        width = 8.6 if columns > 1 else 5.2
        figure = blank(width, 2.7 * max(1, rows) + 0.3, layout="constrained")
        for number, (name, values) in enumerate(scores.items()):
            axes = figure.add_subplot(rows, columns, number + 1)
            _histogram(axes, values, drawn, theme)
            axes.set_title(name, fontsize=10.5)
            axes.set_xlabel("score")
            if number % columns == 0:
                axes.set_ylabel("samples")
        if drawn is not None and drawn.any():
            handles, labels = figure.axes[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside upper right", frameon=False, ncols=2)
    return figure


def _histogram(axes: "Axes", values: NDArray[np.float64], drawn: NDArray[np.bool_] | None, theme: Theme) -> None:
    low, high = np.quantile(values, [0.005, 0.995])
    if low == high:
        low, high = low - 0.5, high + 0.5
    inside = np.clip(values, low, high)
    edges = np.linspace(low, high, BINS + 1)
    parts, labels = [inside], ["label as given"]
    if drawn is not None and drawn.any():
        parts, labels = [inside[~drawn], inside[drawn]], ["label as given", "label drawn at random"]
    axes.hist(parts, bins=edges.tolist(), stacked=True, color=list(theme.series[: len(parts)]), label=labels)
    if low <= 0 <= high:
        axes.axvline(0.0, color=theme.ink, linewidth=1.1, linestyle="--")
        axes.annotate(
            "0", (0.0, 1.0), xycoords=("data", "axes fraction"), xytext=(3, -9), textcoords="offset points", fontsize=9
        )
    axes.grid(axis="y", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4), useMathText=False)
    axes.locator_params(axis="x", nbins=5)


def png(figure: "Figure") -> bytes:
    """Encode a figure as PNG, without the program name and date that would change its bytes."""
    import matplotlib.style

    stream = io.BytesIO()
    with matplotlib.style.context("default"):  # ticks and labels are created during savefig
        figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def write_plots(run: Run, folder: Path | str) -> list[Path]:
    """Write `accuracy.png` and `scores.png` to a folder and return their paths.

    Raises:
        StageIncomplete: The run has no scores or no evaluation yet.
    """
    rows, scores = ordered_lines(run), plotted_scores(run)
    if not rows or not scores:
        missing = "evaluation; run `moso evaluate`" if scores else "scores; run `moso score`"
        raise errors.StageIncomplete(f"{run.directory} has no {missing} first")
    figures = {"accuracy.png": accuracy_figure(rows), "scores.png": scores_figure(scores, drawn=drawn_at_random(run))}
    paths = []
    for name, figure in figures.items():
        path = Path(folder) / name
        with replacing(path) as temporary:
            temporary.write_bytes(png(figure))
        paths.append(path)
    return paths
