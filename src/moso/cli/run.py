"""`moso run`: from data to pruned data, with an evaluation by retraining."""

from pathlib import Path
from typing import Annotated, Any

import typer

from moso.analysis.estimate import estimate
from moso.cli.configuration_flags import RunSettings, configuration_from
from moso.cli.display import showing
from moso.cli.executor_options import ExecutorOptions
from moso.cli.flags import DryRun, with_flags
from moso.cli.printed_tables import print_plan, print_summary
from moso.cli.work import default_out, working
from moso.report.page.page import write_report
from moso.results.directory import RunDirectory
from moso.results.reading import Run
from moso.results.run_data import Preparation, load_data
from moso.run.job import Job
from moso.run.stages import evaluate_stage, score_stage, select_stage, train_stage

ConfigArgument = Annotated[
    Path | None, typer.Argument(metavar="RUN.TOML", help="settings in a file; flags count more", show_default=False)
]
Out = Annotated[
    str | None,
    typer.Option("--out", help="run directory, or an address, s3://bucket/run [runs/DATASET-HASH]", show_default=False),
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
    job = new_job(file, out, options, settings, dry_run=dry_run)
    if dry_run:
        print_plan(job, estimate(job, options.worker_count(job.configuration)))
        return
    with working(job, options) as executor:
        train_stage(job, executor)
        score_stage(job, executor)
        select_stage(job)
        evaluate_stage(job, executor)
        write_report(Run(job.directory))
    if not options.quiet:
        print_summary(job)


@with_flags
def train(file: ConfigArgument = None, out: Out = None, *, options: ExecutorOptions, settings: RunSettings) -> None:
    """Begin a run and train its surrogates; `moso score` goes on from there."""
    job = new_job(file, out, options, settings)
    with working(job, options) as executor:
        train_stage(job, executor)
    if not options.quiet:
        typer.echo(f"surrogates trained in {job.directory}")


def new_job(
    file: Path | None,
    out: str | None,
    options: ExecutorOptions,
    settings: RunSettings,
    defaults: dict[str, Any] | None = None,
    dry_run: bool = False,
) -> Job:
    """Return the job that a file and flags describe, with its data loaded and checked.

    Args:
        file: The TOML file, if there is one.
        out: The run directory; by default that of the file, or one named after data and configuration.
        options: Where and how the pieces run.
        settings: Settings given as flags.
        defaults: Defaults of the verb.
        dry_run: Compute no features.

    Raises:
        MosoError: A setting is invalid, or the data cannot be opened.
    """
    configuration, file_out = configuration_from(file, settings.given, defaults)
    directory = RunDirectory.at(out or file_out or default_out(configuration))
    with showing(options.quiet) as progress:
        data = load_data(configuration, directory, Preparation(progress, placeholder=dry_run))
    return Job(directory, configuration, data, runtime=options.runtime)
