"""A picture an axis of growth: cost and memory on logarithmic scales, with the fitted exponent."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from moso.files import replacing

BLUE, ORANGE, FAINT = "#0072b2", "#d55e00", "#d9dde3"


def growth_figure(axis: dict[str, Any]) -> Figure:
    """Seconds a run with quartiles and the line of its exponent; beside it the peak memory."""
    values = np.array([row["value"] for row in axis["rows"]], dtype=float)
    seconds = np.array([row["seconds"]["median"] for row in axis["rows"]])
    low = np.array([row["seconds"]["lower_quartile"] for row in axis["rows"]])
    high = np.array([row["seconds"]["upper_quartile"] for row in axis["rows"]])
    peaks = np.array([row["peak_bytes"] for row in axis["rows"]]) / 2**20
    figure = Figure(figsize=(7.6, 2.9), dpi=110, layout="constrained")
    cost, memory = figure.subplots(1, 2)
    line = np.exp(np.log(seconds).mean() + axis["exponent"] * (np.log(values) - np.log(values).mean()))
    cost.plot(values, line, color=BLUE, linewidth=1, linestyle="--", label=f"exponent {axis['exponent']:.2f}")
    cost.errorbar(
        values, seconds, yerr=[seconds - low, high - seconds], color=BLUE, marker="o", linestyle="", capsize=3
    )
    cost.set_ylabel("seconds")
    cost.legend(frameon=False)
    memory.plot(values, peaks, color=ORANGE, marker="s", label=f"exponent {axis['memory_exponent']:.2f}")
    memory.set_ylabel("peak memory in MB")
    memory.set_ylim(peaks.min() / 2, peaks.max() * 2)
    memory.legend(frameon=False)
    for axes in (cost, memory):
        axes.set(xscale="log", yscale="log", xlabel=axis["title"])
        axes.set_xticks(values, [f"{value:,.0f}" for value in values])
        axes.minorticks_off()
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.grid(color=FAINT, linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def write_growth_figure(path: Path, axis: dict[str, Any]) -> None:
    """The figure as a PNG file."""
    with replacing(path) as temporary:
        growth_figure(axis).savefig(temporary, format="png", metadata={"Software": None})
