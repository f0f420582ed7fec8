"""The page of an experiment, generated from its result table alone: what was run, the results, and their meaning.

The page is `docs/results/NAME.md` with its plots beside it. The interpretation by a person, `readings/NAME.md`, is
inserted below the numbers.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moso.analysis.wording import count_of, duration
from moso.evaluation.matching import match_words
from moso.experiments.cells import Cell, cells_of
from moso.experiments.declaration import PRESETS, Arm, Experiment, Grid
from moso.experiments.exact_cells import exact_cells
from moso.experiments.execution import Asked, wanted
from moso.experiments.registry import EXPERIMENTS
from moso.experiments.results import Results
from moso.files import replacing, write_text
from moso.report.experiments.experiment_exact import exact_figure, exact_tables
from moso.report.experiments.experiment_plots import figures_of
from moso.report.experiments.experiment_published import published_tables
from moso.report.experiments.experiment_tables import (
    Finished,
    axis_tables,
    class_tables,
    cost_tables,
    detection_tables,
    duel_tables,
    ratio_tables,
)
from moso.report.plots import png
from moso.report.text_table import TextTable

READINGS = "readings"
_MADE = "made by `moso reproduce`; what stands here is overwritten, a reading belongs in"


def page_name(experiment: str, preset: str) -> str:
    """Return the name of an experiment's page, without its suffix.

    Example:
        >>> page_name("figure-1a", "cpu"), page_name("figure-1a", "paper")
        ('figure-1a', 'figure-1a-paper')
    """
    return experiment if preset == "cpu" else f"{experiment}-{preset}"


def write_page(experiment: Experiment, preset: str, folder: Path) -> Path:
    """Write the page and the plots of an experiment, and return the page's path.

    Raises:
        UnknownName: The experiment has no such preset.
    """
    rows, declared = Results.open(folder, experiment.name).rows, experiment.of(preset)
    name = page_name(experiment.name, preset)
    if isinstance(declared, Grid):
        cells = exact_cells(declared)
        own: list[Any] = [rows[cell.key] for cell in cells if cell.key in rows]
        tables, figures = exact_tables(own), {"": exact_figure(own)} if own else {}
        about = [f"{declared.samples} samples of {declared.data}, every one really left out."]
        count = len(cells)
    else:
        asked = cells_of(declared)
        own, count = [rows[cell.key] for cell in asked if cell.key in rows], len(asked)
        shown = _by_name(declared)
        found = [Finished(cell, rows[cell.key]) for cell in shown if cell.key in rows]
        tables, figures = (_tables(experiment, found), figures_of(experiment, found)) if found else ([], {})
        about = _recipes(asked)
    plots = []
    for end, figure in figures.items():
        path = folder / f"{name}{end}.png"
        with replacing(path) as temporary:
            temporary.write_bytes(png(figure))
        plots.append(f"![{experiment.title}]({path.name})")
    text = _head(experiment, preset, own, count, about, name) + "\n" + "\n\n".join(plots) + "\n\n"
    text += "\n".join(table.markdown() for table in tables)
    write_text(folder / f"{name}.md", text + f"\n## Reading\n\n{_reading(folder, name) or 'Not read yet.'}\n")
    return folder / f"{name}.md"


def _by_name(arms: Sequence[Arm]) -> list[Cell]:
    """Return the cells of all arms, grouped by the arm's name; a cell that several names share occurs under each."""
    named: dict[str, list[Arm]] = {}
    for arm in arms:
        named.setdefault(arm.name, []).append(arm)
    return [cell for own in named.values() for cell in cells_of(own)]


def _tables(experiment: Experiment, finished: Sequence[Finished]) -> list[TextTable]:
    match experiment.plot:
        case "arms":
            return [*axis_tables(finished, experiment.axis, experiment.reference), *detection_tables(finished)]
        case "classes":
            return [*class_tables(finished, experiment.reference), *ratio_tables(finished)]
        case "cost":
            return cost_tables(finished)
        case _:
            beside = published_tables(finished, experiment.published)
            return [*ratio_tables(finished), *duel_tables(finished), *beside, *detection_tables(finished)]


def _head(
    experiment: Experiment, preset: str, rows: Sequence[dict[str, Any]], count: int, about: Sequence[str], name: str
) -> str:
    seconds = sum(sum(row["seconds"].values()) for row in _each_pipeline_once(rows))
    commits = ", ".join(sorted({row["commit"] for row in rows})) or "none yet"
    days = sorted(row["finished"][:10] for row in rows)
    when = "" if not days else (f", {days[0]}" if days[0] == days[-1] else f", {days[0]} to {days[-1]}")
    lines = [
        f"# {experiment.name}: {experiment.title}",
        "",
        f"<!-- {_MADE} {READINGS}/{name}.md -->",
        "",
        f"{experiment.source}: {experiment.claim}"
        if experiment.source.startswith("beyond")
        else f"{experiment.source}. **The paper's claim:** {experiment.claim}",
        "",
        f"Preset `{preset}`: {len(rows)} of {count_of(count, 'cell')} finished; "
        f"at most {duration(seconds)} of one process; commit {commits}{when}.",
        "",
        *(f"- {line}" for line in about),
    ]
    return "\n".join(lines) + "\n"


def _each_pipeline_once(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows whose seconds can be summed: ratios and selectors of a seed share surrogates and scores.

    Evidence that several methods share is still counted for each method, so the sum is an upper bound.
    """
    seen, found = set[tuple[str, ...]](), []
    for row in rows:
        own = dict(row["seconds"])
        pipeline = ("data", "label_noise", "risk", "view", "seed", "model", "partitions", "epochs", "sampling")
        for part, names in (("surrogates", pipeline), ("method", (*pipeline, "method"))):
            shared = part, *(str(row.get(name)) for name in names)
            if shared in seen:
                own[part] = 0.0
            seen.add(shared)
        found.append({**row, "seconds": own})
    return found


def _recipes(cells: Sequence[Cell]) -> list[str]:
    """Return one description per distinct pipeline of an experiment."""
    found: dict[str, None] = {}
    for cell in cells:
        c = cell.configuration
        noise = f", {c.label_noise:.0%} label noise" if c.label_noise else ""
        held_out = f", {c.validation_share:.0%} held out, {c.risk} risk" if c.validation_share else ""
        network = f", retrained {cell.arm.network}" if cell.arm.network else ""
        seen = "" if c.view == "evaluation" else f", scored as {c.view} saw them"
        name = f"{cell.arm.name}: " if cell.arm.name else ""
        found[
            f"{name}{cell.arm.data}{noise}{held_out}; network {c.model}{network}; recipe `{c.recipe}`, "
            f"{c.surrogate.epochs} surrogate and {c.retraining.epochs} retraining epochs, {match_words(c.match)}; "
            f"{count_of(c.partitions, 'partition')}, {c.time_steps} {c.sampling} time steps{seen}"
        ] = None
    return list(found)


def _reading(folder: Path, name: str) -> str:
    path = folder / READINGS / f"{name}.md"
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def write_index(folder: Path) -> Path:
    """Write `README.md`, which lists every experiment with its progress and a link to its page; return its path."""
    lines = [
        "# Results",
        "",
        f"<!-- {_MADE} {READINGS}/README.md -->",
        "",
        "A line of `NAME.jsonl` is a finished cell, found by the hash of everything that decides it; pages and plots "
        "are made from these tables alone. [How to run and continue them](../reproduce.md).",
        "",
        "| experiment | of the paper | preset | cells finished | what |",
        "| --- | --- | --- | ---: | --- |",
    ]
    for experiment in EXPERIMENTS.values():
        rows = Results.open(folder, experiment.name).rows
        for preset in PRESETS:
            if preset not in experiment.presets:
                continue
            cells = wanted(experiment, Asked(preset))
            finished = sum(cell.key in rows for cell in cells)
            page = f"{page_name(experiment.name, preset)}.md"
            link = f"[{experiment.name}]({page})" if (folder / page).exists() else experiment.name
            lines.append(
                f"| {link} | {experiment.source} | {preset} | {finished} of {len(cells)} | {experiment.title} |"
            )
    reading = _reading(folder, "README")
    write_text(folder / "README.md", "\n".join([*lines, "", *([reading, ""] if reading else [])]))
    return folder / "README.md"
