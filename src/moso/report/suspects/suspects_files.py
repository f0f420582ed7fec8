"""Suspects as files: a table for programs, a sheet of pictures, and a page that opens offline.

    suspects.csv, .parquet      one row per suspect, worst first
    suspects.png                the first hundred as pictures, if samples are pictures
    suspects.html               all suspects as a page
    detection.csv               how well every ranking found the wrong labels, if they are known

Everything that comes from data (class names, ids, texts) is escaped, and the page forbids scripts and requests.
"""

from dataclasses import asdict, fields
from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from moso.analysis.label_issues import LabelIssues
from moso.analysis.wording import count_of, data_name
from moso.evaluation.detection import Detection
from moso.files import replacing, write_csv, write_table, write_text
from moso.report.plots import png
from moso.report.suspects.suspects_pictures import Look, label_titles, looks, sheet
from moso.report.suspects.suspects_tables import detection_text, suspects_table
from moso.results.reading import Run
from moso.version import __version__


def write_suspects(run: Run, issues: LabelIssues, folder: Path) -> list[Path]:
    """Write all files about the suspects of a run and return their paths."""
    seen, note = looks(run, issues.ids)
    table = suspects_table(issues)
    paths = [folder / name for name in ("suspects.csv", "suspects.parquet", "suspects.html")]
    rows = [row.values() for row in table.to_pylist()]
    write_csv(paths[0], table.column_names, rows)
    write_table(paths[1], table)
    write_text(paths[2], render(run, issues, seen, note))
    figure = sheet(label_titles(issues), seen)
    if figure is not None:
        paths.append(folder / "suspects.png")
        with replacing(paths[-1]) as temporary:
            temporary.write_bytes(png(figure))
    if issues.detections:
        paths.append(folder / "detection.csv")
        names = [field.name for field in fields(Detection)]
        write_csv(paths[-1], names, (asdict(one).values() for one in issues.detections))
    return paths


def render(run: Run, issues: LabelIssues, seen: list[Look], note: str) -> str:
    """Return the page as text."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = (resources.files("moso.report.suspects") / "suspects.html.j2").read_text(encoding="utf-8")
    suspects = []
    for row, look in zip(suspects_table(issues).to_pylist(), seen, strict=True):
        suspects.append({"wrong": None, **row, "address": look.address, "tiny": look.is_tiny, "text": look.text})
    return environment.from_string(text).render(
        name=data_name(run.configuration.dataset),
        headline=headline(issues),
        note=note,
        detection=detection_text(issues) if issues.detections else None,
        suspects=suspects,
        texts=any(look.text for look in seen),
        version=__version__,
    )


def headline(issues: LabelIssues) -> str:
    """Return the findings in one or two sentences."""
    found = issues.suspects
    other = int((found.predicted != found.labels).sum())
    first = (
        f"The {count_of(len(found), 'sample')} of {issues.samples:,} whose label is doubted most, by {issues.order}; "
        f"networks that were not trained on them predict another label for {other:,} of them."
    )
    if found.wrong is None:
        return f"{first} A doubtful label is not proof: look before you relabel."
    return f"{first} {int(found.wrong.sum()):,} of their labels really are wrong."
