"""`moso score | select | evaluate | report`: the stages of a run on its directory."""

import typer

from moso.cli.summary import print_summary
from moso.cli.work import (
    CheckpointSeconds,
    LoaderWorkers,
    Methods,
    Quiet,
    Ratios,
    RunArgument,
    Selectors,
    Workers,
    asked_pairs,
    open_job,
    working,
)
from moso.report.page import write_report
from moso.run.job import Effort
from moso.run.reading import Run
from moso.run.stages import evaluate_stage, score_stage, select_stage, train_stage


def score(
    run: RunArgument,
    method: Methods = None,
    workers: Workers = 0,
    loader_workers: LoaderWorkers = 2,
    checkpoint_seconds: CheckpointSeconds = 10.0,
    quiet: Quiet = False,
) -> None:
    """Measure the step terms of every sample and write the scores."""
    job = open_job(run, Effort(loader_workers, checkpoint_seconds))
    pairs = asked_pairs(job, method, None)
    with working(job, workers, quiet) as executor:
        train_stage(job, executor)
        score_stage(job, executor, [name for name, _ in pairs])
    if not quiet:
        typer.echo(f"scores in {job.directory.root / 'scores.parquet'}")


def select(
    run: RunArgument, method: Methods = None, selector: Selectors = None, ratio: Ratios = None, quiet: Quiet = False
) -> None:
    """Choose what is kept, from scores that are there; any method, selector and ratio."""
    job = open_job(run)
    pairs = asked_pairs(job, method, selector)
    with working(job, 1, quiet=True):
        select_stage(job, pairs, ratio or ())
    if not quiet:
        typer.echo(f"selections in {job.directory.root / 'selections.parquet'}")


def evaluate(
    run: RunArgument,
    method: Methods = None,
    selector: Selectors = None,
    ratio: Ratios = None,
    workers: Workers = 0,
    loader_workers: LoaderWorkers = 2,
    checkpoint_seconds: CheckpointSeconds = 10.0,
    quiet: Quiet = False,
) -> None:
    """Retrain on what selections keep and on all data, and test."""
    job = open_job(run, Effort(loader_workers, checkpoint_seconds))
    pairs = asked_pairs(job, method, selector)
    with working(job, workers, quiet) as executor:
        select_stage(job, pairs, ratio or ())
        evaluate_stage(job, executor, pairs, ratio or ())
    if not quiet:
        print_summary(job)


def report(run: RunArgument, quiet: Quiet = False) -> None:
    """Write report.html from what the run has."""
    path = write_report(Run.open(run))
    if not quiet:
        typer.echo(path)
