"""The work of `moso reproduce`: cells, pages, plans and lists of experiments."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from moso import errors
from moso.analysis.wording import count_of, duration
from moso.cli.display import showing
from moso.cli.printed_tables import console
from moso.cli.reproduce import ReproduceOptions
from moso.experiments.cells import Cell
from moso.experiments.declaration import Experiment
from moso.experiments.execution import Asked, Outcome, missing, reproduce, wanted, wanted_of_all
from moso.experiments.prices import estimate
from moso.experiments.publish import publish_scores
from moso.experiments.registry import EXPERIMENTS, find_experiment
from moso.experiments.results import Results, Row
from moso.report.experiments.experiment_page import page_name, write_index, write_page

EVERY = "all"


def carry_out(names: Sequence[str], o: ReproduceOptions) -> None:
    """Do what the flags of `moso reproduce` ask for; without a name, list the experiments.

    Raises:
        MosoError: ``unknown-name``, ``setting-invalid``, ``stage-incomplete``, and those of runs.
    """
    asked = Asked(o.preset, tuple(o.only or ()), o.seeds, o.jobs, o.hours, o.data, o.results, o.out)
    asked.check()
    if not names:
        _list(asked)
        return
    experiments = _experiments(names, o.preset)
    if o.page:
        for path in _pages(experiments, asked):
            if not o.quiet:
                console().print(f"see {path}", soft_wrap=True)
    elif o.scores is not None:
        cells = [cell for own in wanted_of_all(experiments, asked).values() for cell in own]
        runs = publish_scores([cell for cell in cells if isinstance(cell, Cell)], o.out, o.scores)
        of = ", ".join(str(run.directory.root) for run in runs)
        console().print(f"scores of {of} written to {o.scores}", soft_wrap=True)
    elif o.dry_run:
        _plan(experiments, asked)
    else:
        _reproduce(experiments, asked, o.quiet)


def _reproduce(experiments: Sequence[Experiment], asked: Asked, quiet: bool) -> None:
    started = time.monotonic()
    with showing(quiet) as progress:
        outcome = reproduce(experiments, asked, progress, None if quiet else _say)
    if outcome.finished:
        _pages(experiments, asked)
    if not quiet:
        _summary(experiments, asked, outcome, time.monotonic() - started)


def _experiments(names: Sequence[str], preset: str) -> list[Experiment]:
    """Return the experiments of these names, each once; `all` means those of the preset."""
    every = [one.name for one in EXPERIMENTS.values() if preset in one.presets] or list(EXPERIMENTS)
    found = [find_experiment(own) for name in names for own in (every if name == EVERY else [name])]
    for experiment in found:
        experiment.of(preset)  # raises if the preset is missing, before any work starts
    return list({experiment.name: experiment for experiment in found}.values())


def _say(row: Row, finished: int, cells: int) -> None:
    if "value" in row:
        ratio = "all data" if row["method"] == "full" else f"{row['method']} ({row['selector']}) at {row['ratio']:g}"
        said = f"{ratio}, seed {row['seed']}: {row['value']:.2f} {row['unit']}"
    else:
        said = f"{row['network']}, {row['steps']} steps x {row['rate']:g}, seed {row['seed']}: done"
    print(f"{finished}/{cells} {said}", file=sys.stderr, flush=True)


def _summary(experiments: Sequence[Experiment], asked: Asked, outcome: Outcome, seconds: float) -> None:
    left = outcome.cells - outcome.finished
    told = f"{_titled(experiments)}: {count_of(outcome.new, 'new cell')} in {duration(seconds)}, "
    told += f"{outcome.finished} of {outcome.cells} finished"
    if outcome.out_of_time:
        told += f"; the {asked.hours:g} hours are over, {left} left: start again to go on"
    console().print(told, soft_wrap=True)
    page = "README" if len(experiments) > 1 else page_name(experiments[0].name, asked.preset)
    console().print(f"see {asked.results / page}.md", soft_wrap=True)


def _titled(experiments: Sequence[Experiment]) -> str:
    return experiments[0].name if len(experiments) == 1 else count_of(len(experiments), "experiment")


def _pages(experiments: Sequence[Experiment], asked: Asked) -> list[Path]:
    """Write the pages of the experiments with a table, and the index of all; return the paths of the pages."""
    known = [one for one in experiments if Results.open(asked.results, one.name).rows]
    if not known:
        raise errors.StageIncomplete(f"{asked.results} has no table of {experiments[0].name} yet; run it first")
    paths = [write_page(one, asked.preset, asked.results) for one in known]
    write_index(asked.results)
    return paths


def _plan(experiments: Sequence[Experiment], asked: Asked) -> None:
    cells = wanted_of_all(experiments, asked)
    every = {cell.key for own in cells.values() for cell in own}
    finished = set[str]()
    for name, own in cells.items():
        results, keys = Results.open(asked.results, name), [cell.key for cell in own]
        finished |= {key for key in keys if key in results.rows} | set(results.elsewhere(keys))
    out = console()
    for experiment in experiments:
        out.print(f"{experiment.name}, preset {asked.preset}: {experiment.title}", soft_wrap=True)
    out.print(f"{count_of(len(every), 'cell')}, {len(finished)} of them finished", soft_wrap=True)
    costs = estimate(missing(cells, finished))
    if costs:
        table = Table()
        for column in ("work", "network", "runs", "samples", "time"):
            table.add_column(column, justify="left" if column in ("work", "network") else "right")
        for cost in costs:
            table.add_row(cost.what, cost.network, str(cost.runs), f"{cost.samples:,.0f}", duration(cost.seconds))
        out.print(table)
    total = sum(cost.seconds for cost in costs)
    samples = sum(cost.samples for cost in costs)
    out.print(
        f"in all {sum(cost.runs for cost in costs):,} runs, {samples:,.0f} samples, "
        f"about {total / asked.jobs / 3600:.2f} hours with {count_of(asked.jobs, 'job')} on this machine",
        soft_wrap=True,
    )


def _list(asked: Asked) -> None:
    table = Table(box=None)
    for column in ("name", "source", "what", "presets", "finished"):
        table.add_column(column, no_wrap=column == "name")
    for experiment in EXPERIMENTS.values():
        finished = "-"
        if asked.preset in experiment.presets:
            rows = Results.open(asked.results, experiment.name).rows
            cells = wanted(experiment, asked)
            finished = f"{sum(cell.key in rows for cell in cells)} of {len(cells)}"
        table.add_row(experiment.name, experiment.source, experiment.title, ", ".join(experiment.presets), finished)
    console().print(table)
