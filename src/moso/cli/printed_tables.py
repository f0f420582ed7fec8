"""Printed tables: the summary of a run, and the plan of a dry run."""

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from moso.analysis.costs import costs
from moso.analysis.estimate import estimate
from moso.analysis.resources import check_place, class_notes, size
from moso.analysis.verdict import Verdict, verdict_of
from moso.analysis.wording import count_of, duration
from moso.configuration.class_mix import mix_note
from moso.evaluation.matching import match_words
from moso.report.run_views import ordered_lines
from moso.report.text_table import TextTable
from moso.results.reading import Run
from moso.run.choosing import auto_path, is_trial, read_decisions
from moso.run.job import Job
from moso.selection import kept_count


def console() -> Console:
    """Return a console for standard output: as wide as the terminal, or 120 columns if it is not a terminal.

    Markup is disabled, so that brackets are printed as they are; `moso-prune[cleanlab]` would lose its extra.
    """
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False, markup=False)


def print_summary(job: Job) -> None:
    """Print the metric by method and ratio, the headline of the page, and the costs."""
    out = console()
    if job.task.has_answers:
        _print_standings(out, job)
    else:
        _print_kept(out, job)
    print_mix(job)
    if job.task.has_answers:
        print_verdict(verdict_of(Run(job.directory)))
    _print_decisions(out, job)
    if job.view_reason:
        out.print(job.view_reason, soft_wrap=True)
    _print_costs(out, job)
    files = [job.directory.root / name for name in ("report.html", "selections.parquet", "scores.parquet")]
    out.print("see " + ", ".join(job.directory.named(path) for path in files if path.exists()))


def _print_standings(out: Console, job: Job) -> None:
    """Print the metric by method and ratio."""
    rows = sorted(ordered_lines(Run(job.directory)), key=lambda line: (line.method, line.selector, line.ratio))
    ratios = sorted({line.ratio for line in rows if line.method != "full"})
    c = job.configuration
    noise = f", {c.label_noise:.0%} label noise" if c.label_noise else ""
    spread = f"mean ± standard deviation of {c.seeds} seeds" if c.seeds > 1 else "one seed"
    measure = rows[0].measure
    better = "" if measure.better == "higher" else ", lower is better"
    how = f"(recipe {c.recipe}, {match_words(c.match)}{better})"
    out.print(f"{measure.heading} on {c.dataset}{noise}: {spread} {how}", soft_wrap=True)
    table = Table()
    table.add_column("share removed")
    for ratio in ratios:
        table.add_column(f"{ratio:g}", justify="right")
    found = {(line.method, line.selector, line.ratio): line for line in rows}
    for method, selector in dict.fromkeys((line.method, line.selector) for line in rows if line.method != "full"):
        cells = [found.get((method, selector, ratio)) for ratio in ratios]
        name = next(cell.name for cell in cells if cell is not None)
        table.add_row(name, *("" if cell is None else cell.text for cell in cells))
    out.print(table)
    for line in rows:
        if line.method == "full":
            out.print(f"all data: {line.text}")


def _print_kept(out: Console, job: Job) -> None:
    """Print what was selected where nothing can be measured."""
    out.print(
        f"{job.configuration.dataset} has no labels: samples are selected, and nothing is retrained or measured.",
        soft_wrap=True,
    )
    count = len(job.data.train)
    for one in Run(job.directory).selections():
        kept = kept_count(count, one.ratio)
        out.print(f"{one.method} ({one.selector}), ratio {one.ratio:g}, seed {one.seed}: {kept:,} of {count:,} kept")


def print_mix(job: Job) -> None:
    """Print what selections do to the mix of uneven classes; nothing for even ones."""
    c, train = job.configuration, job.data.train
    mix = "equal" if "balanced" in c.selectors else c.class_mix
    note = mix_note(train.labels, train.classes, c.ratios[0], mix) if c.by_class else ""
    if note:
        console().print(note, soft_wrap=True)


def print_verdict(verdict: Verdict) -> None:
    """Print the verdict: the headline as one paragraph, then one line per sentence."""
    out = console()
    for sentence in (verdict.headline, *verdict.sentences[2:]):
        out.print(sentence, soft_wrap=True)


def _print_decisions(out: Console, job: Job) -> None:
    """Print what `auto` took at each ratio and seed, how sure that is, and what trying candidates cost."""
    decisions = read_decisions(job)
    for decision in decisions:
        out.print(decision.sentence(), soft_wrap=True)
    if any(decision.noisy for decision in decisions):
        out.print(
            "auto counted held-out labels as they are, wrong ones included: true gains are larger", soft_wrap=True
        )
    spent = sum(seconds for piece, seconds in job.directory.seconds("score").items() if is_trial(piece))
    if decisions:
        out.print(
            f"auto tried its candidates in {duration(spent)}; all of it is in {job.directory.named(auto_path(job))}"
        )


def _print_costs(out: Console, job: Job) -> None:
    spent = costs(job.directory, job.configuration)
    out.print(
        f"computation: surrogates {duration(spent.surrogates)} and scoring {duration(spent.scoring)} for one seed, "
        f"all retrainings {duration(spent.all_retrainings)}"
    )


def print_tables(texts: Iterable[TextTable]) -> None:
    """Print tables of text, each with its note."""
    out = console()
    for text in texts:
        out.print(text.title, style="bold")
        table = Table()
        for number, name in enumerate(text.columns):
            table.add_column(name, justify="right" if number else "left")
        for row in text.rows:
            table.add_row(*row)
        out.print(table)
        if text.note:
            out.print(text.note + "\n", style="dim")


def print_plan(job: Job, workers: int) -> None:
    """Print what would be done, with its time, memory and disk, and what to cut.

    Args:
        job: The job of the run.
        workers: Number of pieces that run in parallel.

    Raises:
        MosoError: ``not-writable`` if the place of the run cannot be written to or has not enough room.
    """
    check_place(job.directory, 0)
    plan = estimate(job, workers)
    c, out = job.configuration, console()
    test = 0 if job.data.test is None else len(job.data.test)
    out.print(f"{c.dataset}: {len(job.data.train)} samples to train on, {test} to test on, recipe {c.recipe}")
    print_mix(job)
    for note in class_notes(job.data):
        out.print(note, soft_wrap=True)
    table = Table(title=f"would write {job.directory}")
    for name in ("stage", "what", "pieces", "time of one", "time in all"):
        table.add_column(name, justify="left" if name in ("stage", "what") else "right")
    for stage in plan.stages:
        table.add_row(stage.name, stage.what, str(stage.pieces), duration(stage.seconds_each), duration(stage.seconds))
    out.print(table)
    needed = plan.resources
    memory = "" if needed.memory is None else f"peak memory {size(needed.memory)}, "
    out.print(
        f"about {duration(plan.wall_seconds)}, {count_of(plan.workers, 'worker')} x {count_of(c.threads, 'thread')}, "
        f"{memory}disk {size(needed.disk)} ({size(needed.networks)} of recorded networks), by a short calibration",
        soft_wrap=True,
    )
    if plan.advice():
        out.print(plan.advice(), soft_wrap=True)
    check_place(job.directory, needed.disk)
