"""The tables and the plot of docs/adjoint.md from what was measured, between two marks that leave the words alone.

python -m benchmarks.adjoint_page
"""

import json
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.ticker import NullLocator

from benchmarks.adjoint import OUT as COST
from benchmarks.adjoint_map import OUT as MAP
from moso.errors import MosoError
from moso.files import replacing, write_text

BEGIN, END = "<!-- made by python -m benchmarks.adjoint_page; do not edit -->", "<!-- end of what was made -->"
DOCS = Path(__file__).parent.parent / "docs"
COLUMNS = {
    "moso": "Prop. 1.1",
    "centred": "centred",
    "adjoint": "adjoint",
    "adjoint-8-probes": "adjoint, 8 probes",
    "adjoint-self": "adjoint, exact self term",
    "tracin": "TracIn (dattri)",
    "trak": "TRAK",
}
NETWORKS = {
    "softmax": "softmax regression",
    "tanh": "16 tanh units",
    "relu": "16 rectified units",
    "tanh-norm": "convolution, batch-norm, tanh",
    "relu-norm": "convolution, batch-norm, rectified",
}
DRAWN = {
    "moso": ("#9a9a9a", "o"),
    "tracin": ("#c8a24a", "v"),
    "adjoint": ("#1f6f8b", "s"),
    "adjoint-self": ("#b8405e", "D"),
}


def main() -> None:
    rows = list(json.loads(MAP.read_text(encoding="utf-8")).values())
    rows.sort(key=lambda row: (list(NETWORKS).index(row["network"]), -row["samples"], row["batch"], _length(row)))
    page = DOCS / "adjoint.md"
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    if not begin or END not in rest:
        raise MosoError(f"{page} has no place for tables: it needs the lines {BEGIN} and {END}")
    parts = [
        "Spearman with exact leave-one-out:",
        _table(rows, "spearman"),
        "Linear datamodeling score, 48 random tenths left out together, the risk of all samples:",
        _table(rows, "lds"),
        "![Spearman with exact leave-one-out against the length of training](images/adjoint-map.png)",
    ]
    if COST.exists():
        parts += ["Cost, in runs of the same training:", _costs(json.loads(COST.read_text(encoding="utf-8")))]
    write_text(page, f"{before}{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{END}{rest.partition(END)[2]}")
    draw(rows, DOCS / "images" / "adjoint-map.png")


def _length(row: dict[str, Any]) -> float:
    return float(row["rate"] * row["steps"] / (1 - row["momentum"]))


def _table(rows: list[dict[str, Any]], what: str) -> str:
    lines = [
        f"| network | N | steps x rate | {' | '.join(COLUMNS.values())} |",
        f"|---|---|---|{'---|' * len(COLUMNS)}",
    ]
    for row in rows:
        run = f"{row['steps']} x {row['rate']:g}"
        run += f", batches of {row['batch']}, momentum {row['momentum']:g}" if row["batch"] else ""
        cells = [f"{row[what][name]:.2f}" if name in row[what] else "" for name in COLUMNS]
        lines.append(f"| {NETWORKS[row['network']]} | {row['samples']} | {run} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _costs(rows: dict[str, Any]) -> str:
    lines = [
        "| network | batch | probes | runs | memory, in training steps, beside the states held |",
        "|---|---|---|---|---|",
    ]
    for row in rows.values():
        cells = (
            row["model"],
            row["batch"],
            row["probes"],
            f"{row['runs']:.1f}",
            f"{row['training_steps_of_memory']:.1f}",
        )
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Spearman against rate x steps (over 1 - momentum), a panel a network."""
    matplotlib.use("Agg")
    shown = [name for name in NETWORKS if any(row["network"] == name for row in rows)]
    figure, panels = plt.subplots(1, len(shown), figsize=(3.1 * len(shown), 3.0), sharey=True, squeeze=False)
    for panel, network in zip(panels[0], shown, strict=True):
        own = sorted((row for row in rows if row["network"] == network), key=_length)
        for name, (colour, marker) in DRAWN.items():
            for filled in (True, False):  # open marks: sets of 60
                points = [
                    (_length(row), row["spearman"][name])
                    for row in own
                    if name in row["spearman"] and (row["samples"] >= 200) == filled
                ]
                if points:
                    x, y = zip(*points, strict=True)
                    label = COLUMNS[name] if filled else None
                    panel.plot(x, y, marker, color=colour, label=label, mfc=colour if filled else "none", alpha=0.85)
        panel.axhline(0.95, color="#cccccc", lw=0.8, zorder=0)
        panel.set(title=NETWORKS[network], xscale="log", xlabel="steps x rate / (1 - momentum)", ylim=(-0.3, 1.05))
        panel.title.set_fontsize(9)
        panel.set_xticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
        panel.xaxis.set_minor_locator(NullLocator())
        panel.set_xlim(1.4, 75)
    panels[0][0].set_ylabel("Spearman with leave-one-out")
    panels[0][0].legend(fontsize=7, loc="lower left")
    figure.tight_layout()
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main()
