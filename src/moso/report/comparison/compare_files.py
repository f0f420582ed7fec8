"""A comparison as files in its run: `compare/` has tables for people and programs, and plots.

comparison.csv, .parquet,   one row per method, selector, ratio and what retraining keeps equal, with paired differences
comparison.json
overlap.csv                 ratio, two methods, Jaccard's index of what they keep
correlations.csv            two scores, Spearman's rank correlation
tolerance.csv               how much each method can remove
costs.csv                   seconds and memory of each method
comparison.md               all tables for people
accuracy.png, differences.png, likeness.png
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from moso.analysis.comparison import Comparison
from moso.analysis.wording import data_name, percent
from moso.evaluation.matching import match_words
from moso.evaluation.paired import PairedDifference
from moso.evaluation.summary import FULL
from moso.files import replacing, write_csv, write_json, write_table, write_text
from moso.report.comparison.compare_plots import differences_figure, likeness_figure, reached_figure
from moso.report.plots import accuracy_figure, png
from moso.report.text_table import TextTable
from moso.results.reading import Run
from moso.selection import kept_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "compare"
LINES = 10


def write_comparison(run: Run, comparison: Comparison, texts: Sequence[TextTable]) -> Path:
    """Write all files of a comparison and return their folder."""
    folder = run.directory.root / FOLDER
    rows = table_rows(comparison)
    write_table(folder / "comparison.parquet", pa.Table.from_pylist(rows, schema=_SCHEMA))
    write_csv(folder / "comparison.csv", _SCHEMA.names, ([row[name] for name in _SCHEMA.names] for row in rows))
    write_json(folder / "comparison.json", rows)
    overlap = ((ratio, *pair) for ratio, likeness in comparison.overlap.items() for pair in likeness.pairs())
    write_csv(folder / "overlap.csv", ("ratio", "first", "second", "jaccard"), overlap)
    pairs = comparison.correlations.pairs() if comparison.correlations is not None else []
    write_csv(folder / "correlations.csv", ("first", "second", "spearman"), pairs)
    write_csv(
        folder / "tolerance.csv",
        ("method", "tolerance", "ratio", "at_least", "lowest_seed", "highest_seed"),
        (
            (
                one.name,
                comparison.tolerance,
                one.by_mean.ratio,
                one.by_mean.at_least,
                one.lowest.ratio,
                one.highest.ratio,
            )
            for one in comparison.reaches
        ),
    )
    names = ("method", "selector", "networks", "measuring", "choosing", "peak")
    write_csv(folder / "costs.csv", names, (asdict(cost).values() for cost in comparison.costs))
    c = run.configuration
    network = c.retrained_network
    head = (
        f"# Methods compared on {data_name(c.dataset)}\n\n{comparison.samples:,} training samples, network {network}, "
    )
    head += f"recipe {c.recipe}, retraining on less gets {match_words(c.match)}.\n\n"
    write_text(folder / "comparison.md", head + "\n".join(text.markdown() for text in texts))
    for name, figure in figures(comparison).items():
        with replacing(folder / name) as temporary:
            temporary.write_bytes(png(figure))
    return folder


_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("method", "selector", "parameters")),
        ("ratio", pa.float64()),
        ("kept", pa.int64()),
        ("seeds", pa.int64()),
        ("metric", pa.string()),
        ("better", pa.string()),
        *((name, pa.float64()) for name in ("mean", "standard_deviation")),
        ("random_selector", pa.string()),
        *((f"against_random{end}", pa.float64()) for end in ("", "_low", "_high")),
        *((f"against_all_data{end}", pa.float64()) for end in ("", "_low", "_high")),
        ("match", pa.string()),
    ]
)


def table_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return one row per method, selector, ratio and match; None for values that were not measured."""
    found = []
    for match, row in ((match, row) for match, rows in comparison.by_match.items() for row in rows):
        entry, line = row.entry, row.entry.line
        if entry.method == FULL and match != comparison.match:
            continue  # the same training under every match
        found.append(
            {
                "method": entry.method,
                "selector": entry.selector,
                "parameters": entry.parameters,
                "ratio": entry.ratio,
                "kept": kept_count(comparison.samples, entry.ratio),
                "seeds": len(entry.by_seed),
                "metric": entry.measure.name,
                "better": entry.measure.better,
                "mean": line.mean,
                "standard_deviation": line.spread if len(entry.by_seed) > 1 else None,
                "random_selector": None if row.random is None else row.random.selector,
                **_columns("against_random", row.against_random),
                **_columns("against_all_data", row.against_full),
                "match": match,
            }
        )
    return found


def _columns(name: str, difference: PairedDifference | None) -> dict[str, float | None]:
    if difference is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    known = difference.pairs > 1  # one seed has no interval
    return {
        name: difference.value,
        f"{name}_low": difference.low if known else None,
        f"{name}_high": difference.high if known else None,
    }


def figures(comparison: Comparison) -> dict[str, "Figure"]:
    """Return the plots of the comparison by file name; plots without data are left out."""
    # Many lines in one plot are indistinguishable, so many methods are drawn as rows of panels instead.
    few = len({row.entry.name for row in comparison.rows}) <= LINES
    lines = [row.entry.line for row in comparison.rows]
    found = {"accuracy.png": accuracy_figure(lines) if few else reached_figure(comparison.rows)}
    if any(row.against_random is not None and row.entry.method != FULL for row in comparison.rows):
        found["differences.png"] = differences_figure(comparison.rows)
    panels = []
    if comparison.overlap:
        ratio = max(comparison.overlap)
        panels.append((f"kept in common, {percent(ratio)} removed", comparison.overlap[ratio]))
    if comparison.correlations is not None:
        panels.append(("rank correlation of scores", comparison.correlations))
    if panels:
        found["likeness.png"] = likeness_figure(panels)
    return found
