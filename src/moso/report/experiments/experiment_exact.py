"""Accuracy of the approximation, from the table of exact leave-one-out: agreement, error and bound."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from moso.report.plots import LIGHT, Theme, blank, house_style
from moso.report.text_table import TextTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
_MARKERS = "osD^"


def _groups(rows: Sequence[Row]) -> dict[tuple[str, float, int], list[Row]]:
    found: dict[tuple[str, float, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row["network"], row["rate"], row["steps"]), []).append(row)
    return dict(sorted(found.items()))


def exact_tables(rows: Sequence[Row]) -> list[TextTable]:
    """Return a table of rank correlations with the exact scores, errors, and slack of the bound; means over seeds."""
    if not rows:
        return []
    names = list(rows[0]["spearman"])
    texts = []
    for (network, rate, steps), own in _groups(rows).items():
        agreement = [f"{np.mean([row['spearman'][name] for row in own]):.2f}" for name in names]
        error = np.mean([row["relative_error"]["moso"] for row in own])
        loose = np.mean([row["bound"] / row["largest_error"] for row in own])
        positive = np.mean([row["positive"] for row in own])
        texts.append(
            [
                f"{network}, {steps} x {rate:g}",
                *agreement,
                f"{error:.2f}",
                f"{loose:,.0f}",
                f"{positive:.0%}",
                str(len(own)),
            ]
        )
    columns = ["network, steps x rate", *names, "error of moso", "bound / largest error", "M > 0", "seeds"]
    note = "Spearman against the exact scores; the error is a root mean square, in their standard deviations."
    return [TextTable("agreement with exact leave-one-out", columns, texts, note)]


def exact_figure(rows: Sequence[Row], *, theme: Theme = LIGHT) -> "Figure":
    """Plot agreement and relative error against steps: one line per rate, one column per network."""
    networks = list(dict.fromkeys(row["network"] for row in rows))
    rates = sorted({row["rate"] for row in rows})
    groups = _groups(rows)
    with house_style(theme):
        figure = blank(8.6, 5.6, layout="constrained")
        for column, network in enumerate(networks):
            for line, (what, title) in enumerate((("spearman", "Spearman"), ("relative_error", "relative error"))):
                axes = figure.add_subplot(2, len(networks), line * len(networks) + column + 1)
                for number, rate in enumerate(rates):
                    steps = sorted(one[2] for one in groups if one[:2] == (network, rate))
                    means = [float(np.mean([row[what]["moso"] for row in groups[network, rate, s]])) for s in steps]
                    style = {"marker": _MARKERS[number % 4], "color": theme.series[number % len(theme.series)]}
                    axes.plot(steps, means, label=f"rate {rate:g}", **style)  # type: ignore[arg-type]
                axes.set_xscale("log")
                axes.set_title(f"{network}: {title}", fontsize=10.5)
                axes.grid(linewidth=0.7)
        figure.axes[0].legend(frameon=False, fontsize=8.5)
        figure.supxlabel("steps", fontsize=10)
    return figure
