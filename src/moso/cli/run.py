"""`moso run`: from data to pruned data, with an evaluation by retraining. `moso train`: its first stage."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moso.cli.options.configuration_flags import RunSettings
from moso.cli.options.executor_options import ExecutorOptions
from moso.cli.options.flags import DryRun, option, with_flags
from moso.cli.options.panels import OUTPUT

if TYPE_CHECKING:
    from moso.run.job import Job
    from moso.run.stages import Executor

ConfigArgument = Annotated[
    Path | None,
    typer.Argument(metavar="RUN.TOML", help="settings in a file; flags override it", show_default=False),
]
Out = Annotated[
    str | None,
    option("--out", panel=OUTPUT, metavar="RUN", help="run directory or address [default: runs/DATASET-HASH]"),
]


@with_flags
def run(
    file: ConfigArgument = None,
    out: Out = None,
    *,
    options: ExecutorOptions,
    dry_run: DryRun = False,
    settings: RunSettings,
) -> None:
    """Partition, train surrogates, score, select, retrain, report: the whole job, resumable."""
    from moso.cli.printed_tables import print_plan, print_summary
    from moso.cli.work import new_job, working
    from moso.results.verification import mended

    job = new_job(file, out, options, settings, dry_run=dry_run)
    if dry_run:
        print_plan(job, options.worker_count(job.configuration))
        return
    with working(job, options, ("train", "score", "evaluate")) as executor:
        mended(job.directory, lambda: _carry_out(job, executor))
    if not options.quiet:
        print_summary(job)


def _carry_out(job: "Job", executor: "Executor") -> None:
    """Carry out all stages; complete pieces are skipped."""
    from moso.report.page.page import write_report
    from moso.results.reading import Run
    from moso.run.stages import evaluate_stage, score_stage, select_stage, train_stage

    train_stage(job, executor)
    score_stage(job, executor)
    select_stage(job)
    if job.task.has_answers:
        evaluate_stage(job, executor)
    write_report(Run(job.directory))


@with_flags
def train(file: ConfigArgument = None, out: Out = None, *, options: ExecutorOptions, settings: RunSettings) -> None:
    """Begin a run and train its surrogates; `moso score` goes on from there."""
    from moso.cli.work import new_job, working
    from moso.results.verification import mended
    from moso.run.stages import train_stage

    job = new_job(file, out, options, settings)
    with working(job, options, ("train",)) as executor:
        mended(job.directory, lambda: train_stage(job, executor))
    if not options.quiet:
        typer.echo(f"surrogates trained in {job.directory}; `moso score {job.directory}` goes on")
