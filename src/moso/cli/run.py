"""`moso run`: data in, pruned data and proof out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from moso.analysis.estimate import estimate
from moso.cli.configuration_flags import configuration_from, with_settings
from moso.cli.printed_tables import print_plan, print_summary
from moso.cli.work import CheckpointSeconds, LoaderWorkers, Quiet, default_out, working
from moso.cli.workplace import HERE, Workplace, with_workplace
from moso.report.page.page import write_report
from moso.results.directory import RunDirectory
from moso.results.originals import load_data
from moso.results.reading import Run
from moso.run.job import Job, Runtime
from moso.run.stages import evaluate_stage, score_stage, select_stage, train_stage

ConfigArgument = Annotated[
    Path | None, typer.Argument(metavar="RUN.TOML", help="settings in a file; flags count more", show_default=False)
]
Out = Annotated[
    str | None,
    typer.Option("--out", help="run directory, or an address, s3://bucket/run [runs/DATASET-HASH]", show_default=False),
]


@with_settings
@with_workplace
def run(
    file: ConfigArgument = None,
    out: Out = None,
    workplace: Workplace = HERE,
    loader_workers: LoaderWorkers = 2,
    checkpoint_seconds: CheckpointSeconds = 10.0,
    quiet: Quiet = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="say what would be done and how long it will take")
    ] = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Partition, train surrogates, score, select, retrain, report: the whole job, resumable."""
    job = new_job(file, out, Runtime(loader_workers, checkpoint_seconds), settings)
    if dry_run:
        print_plan(job, estimate(job, workplace.worker_count(job.configuration)))
        return
    with working(job, workplace, quiet) as executor:
        train_stage(job, executor)
        score_stage(job, executor)
        select_stage(job)
        evaluate_stage(job, executor)
        write_report(Run(job.directory))
    if not quiet:
        print_summary(job)


@with_settings
@with_workplace
def train(
    file: ConfigArgument = None,
    out: Out = None,
    workplace: Workplace = HERE,
    loader_workers: LoaderWorkers = 2,
    checkpoint_seconds: CheckpointSeconds = 10.0,
    quiet: Quiet = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Begin a run and train its surrogates; `moso score` goes on from there."""
    job = new_job(file, out, Runtime(loader_workers, checkpoint_seconds), settings)
    with working(job, workplace, quiet) as executor:
        train_stage(job, executor)
    if not quiet:
        typer.echo(f"surrogates trained in {job.directory}")


def new_job(
    file: Path | None,
    out: str | None,
    runtime: Runtime,
    settings: dict[str, Any],
    defaults: dict[str, Any] | None = None,
) -> Job:
    """The job that a file and flags describe, its data loaded and checked."""
    configuration, file_out = configuration_from(file, settings, defaults)
    directory = RunDirectory.at(out or file_out or default_out(configuration))
    return Job(directory, configuration, load_data(configuration), runtime=runtime)
