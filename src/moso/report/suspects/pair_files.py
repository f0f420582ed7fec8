"""Suspects among pairs as files: a table for programs, a sheet of pictures, and a page that opens offline.

    suspects.csv, .parquet      one row per suspect, worst first: rank, id, text, loss, suspicion
    suspects.png                the first hundred as pictures with their texts, if inputs are pictures
    suspects.html               all suspects as a page

Everything that comes from data is escaped, and the page forbids scripts and requests.
"""

from importlib import resources
from pathlib import Path

import pyarrow as pa
from jinja2 import Environment, StrictUndefined

from moso.analysis.pair_issues import PairIssues
from moso.analysis.wording import count_of, data_name
from moso.files import replacing, write_csv, write_table, write_text
from moso.report.plots import png
from moso.report.suspects.suspects_pictures import Look, looks, sheet, text_titles
from moso.report.text_table import TextTable
from moso.results.reading import Run
from moso.version import __version__

_LONGEST = 60


def pairs_table(issues: PairIssues) -> pa.Table:
    """Return one row per suspect: rank, id, text, out-of-sample loss and suspicion."""
    ranks = list(range(1, len(issues) + 1))
    columns = {"rank": ranks, "id": issues.ids, "text": issues.texts, "loss": issues.losses}
    return pa.table({**columns, "suspicion": issues.suspicion})


def pairs_text(issues: PairIssues, shown: int) -> TextTable:
    """Return the first `shown` suspects as a table of text."""
    rows = [
        [str(row["id"]), row["text"] if len(row["text"]) <= _LONGEST else f"{row['text'][: _LONGEST - 1]}…",
         f"{row['loss']:.2f}"]
        for row in pairs_table(issues).slice(0, shown).to_pylist()
    ]  # fmt: skip
    title = f"the {count_of(min(shown, len(issues)), 'most suspicious pair')} by {issues.order}"
    note = f"Loss: the mean over networks that never saw the pair. {issues.note}".strip()
    return TextTable(title, ["id", "text", "loss"], rows, note)


def pairs_headline(issues: PairIssues) -> str:
    """Return the findings in two sentences."""
    return (
        f"The {count_of(len(issues), 'pair')} of {issues.samples:,} whose text most likely belongs to another input, "
        f"by {issues.order}. A doubtful pair is not proof: look before you remove."
    )


def write_pair_suspects(run: Run, issues: PairIssues, folder: Path) -> list[Path]:
    """Write all files about the suspects among the pairs of a run and return their paths."""
    seen, note = looks(run, issues.ids)
    table = pairs_table(issues)
    paths = [folder / name for name in ("suspects.csv", "suspects.parquet", "suspects.html")]
    write_csv(paths[0], table.column_names, [row.values() for row in table.to_pylist()])
    write_table(paths[1], table)
    write_text(paths[2], _page(run, issues, seen, note))
    figure = sheet(text_titles(issues.texts), seen)
    if figure is not None:
        paths.append(folder / "suspects.png")
        with replacing(paths[-1]) as temporary:
            temporary.write_bytes(png(figure))
    return paths


def _page(run: Run, issues: PairIssues, seen: list[Look], note: str) -> str:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = (resources.files("moso.report.suspects") / "suspects.html.j2").read_text(encoding="utf-8")
    suspects = [
        {**row, "label": row["text"], "text": None, "wrong": None, "address": look.address, "tiny": look.is_tiny}
        for row, look in zip(pairs_table(issues).to_pylist(), seen, strict=True)
    ]
    return environment.from_string(text).render(
        name=data_name(run.configuration.dataset),
        headline=pairs_headline(issues),
        note=" ".join(filter(None, (note, issues.note))),
        detection=None,
        suspects=suspects,
        texts=False,
        version=__version__,
    )
