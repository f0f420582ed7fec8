"""`moso score | select | evaluate`: the stages of a run, applied to its directory."""

from typing import Annotated

import typer

from moso.cli.options.executor_options import ExecutorOptions
from moso.cli.options.flags import Quiet, RunArgument, option, with_flags
from moso.cli.options.panels import PROOF
from moso.cli.options.selection_options import Methods, SelectionOptions, Selectors

Tolerance = Annotated[
    float | None,
    option(
        "--tolerance",
        panel=PROOF,
        help="points that pruning may cost, overall and in the worst class [default: the run's]",
    ),
]


@with_flags
def score(run: RunArgument, method: Methods = None, selector: Selectors = None, *, options: ExecutorOptions) -> None:
    """Gather the evidence that methods and selectors need and write the scores."""
    from moso.cli.options.selection_options import asked_choices
    from moso.cli.work import open_job, working
    from moso.results.verification import mended
    from moso.run.stages import score_stage

    job = open_job(run, options)
    choices = asked_choices(job, method, selector)
    with working(job, options, ("train", "score")) as executor:
        mended(job.directory, lambda: score_stage(job, executor, choices))
    if not options.quiet:
        typer.echo(f"scores in {job.directory.named(job.directory.root / 'scores.parquet')}")


@with_flags
def select(run: RunArgument, asked: SelectionOptions, quiet: Quiet = False) -> None:
    """Choose what is kept, from scores that are there or yours; any method, selector and ratio."""
    from moso.cli.work import open_job, working
    from moso.results.verification import mended
    from moso.run.stages import select_stage

    job = open_job(run)
    with working(job, ExecutorOptions(workers=1, quiet=True), networks=False):
        mended(job.directory, lambda: select_stage(job, asked.choices(job), asked.ratios(job)))
    if not quiet:
        typer.echo(f"selections in {job.directory.named(job.directory.root / 'selections.parquet')}")


@with_flags
def evaluate(
    run: RunArgument, asked: SelectionOptions, tolerance: Tolerance = None, *, options: ExecutorOptions
) -> None:
    """Retrain on what selections keep and on all data, and test."""
    from moso.cli.printed_tables import print_summary
    from moso.cli.work import open_job, with_tolerance, working
    from moso.results.verification import mended
    from moso.run.stages import evaluate_stage, select_stage

    job = with_tolerance(open_job(run, options), tolerance)
    with working(job, options, ("evaluate",)) as executor:

        def work() -> None:
            choices, ratios = asked.choices(job), asked.ratios(job)
            select_stage(job, choices, ratios)
            evaluate_stage(job, executor, choices, ratios)

        mended(job.directory, work)
    if not options.quiet:
        print_summary(job)
