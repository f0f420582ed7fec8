"""`moso score | select | evaluate`: the stages of a run on its directory."""

import typer

from moso.cli.printed_tables import print_summary
from moso.cli.work import (
    CheckpointSeconds,
    Decisions,
    LoaderWorkers,
    Methods,
    MinPerClass,
    OwnHard,
    OwnIndices,
    OwnName,
    OwnScores,
    Quiet,
    Ratios,
    RunArgument,
    Selectors,
    SelectorSettings,
    asked_choices,
    brought,
    decided,
    open_job,
    working,
)
from moso.cli.workplace import HERE, Workplace, with_workplace
from moso.run.job import Runtime
from moso.run.stages import evaluate_stage, score_stage, select_stage


@with_workplace
def score(
    run: RunArgument,
    method: Methods = None,
    selector: Selectors = None,
    workplace: Workplace = HERE,
    loader_workers: LoaderWorkers = 2,
    checkpoint_seconds: CheckpointSeconds = 10.0,
    quiet: Quiet = False,
) -> None:
    """Gather the evidence that methods and selectors need and write the scores."""
    job = open_job(run, Runtime(loader_workers, checkpoint_seconds))
    choices = asked_choices(job, method, selector)
    with working(job, workplace, quiet) as executor:
        score_stage(job, executor, choices)
    if not quiet:
        typer.echo(f"scores in {job.directory.named(job.directory.root / 'scores.parquet')}")


def select(
    run: RunArgument,
    method: Methods = None,
    selector: Selectors = None,
    ratio: Ratios = None,
    setting: SelectorSettings = None,
    min_per_class: MinPerClass = None,
    scores: OwnScores = None,
    indices: OwnIndices = None,
    name: OwnName = None,
    hard: OwnHard = None,
    overrides: Decisions = None,
    quiet: Quiet = False,
) -> None:
    """Choose what is kept, from scores that are there or yours; any method, selector and ratio."""
    job = open_job(run)
    with working(job, Workplace(workers=1), quiet=True):
        own = brought(job, name, scores, indices, hard)
        choices = asked_choices(job, [*(method or []), *own], selector, setting, min_per_class)
        choices = decided(job, choices, overrides)
        select_stage(job, choices, ratio or ())
    if not quiet:
        typer.echo(f"selections in {job.directory.named(job.directory.root / 'selections.parquet')}")


@with_workplace
def evaluate(
    run: RunArgument,
    method: Methods = None,
    selector: Selectors = None,
    ratio: Ratios = None,
    setting: SelectorSettings = None,
    min_per_class: MinPerClass = None,
    scores: OwnScores = None,
    indices: OwnIndices = None,
    name: OwnName = None,
    hard: OwnHard = None,
    overrides: Decisions = None,
    workplace: Workplace = HERE,
    loader_workers: LoaderWorkers = 2,
    checkpoint_seconds: CheckpointSeconds = 10.0,
    quiet: Quiet = False,
) -> None:
    """Retrain on what selections keep and on all data, and test."""
    job = open_job(run, Runtime(loader_workers, checkpoint_seconds))
    with working(job, workplace, quiet) as executor:
        own = brought(job, name, scores, indices, hard)
        choices = asked_choices(job, [*(method or []), *own], selector, setting, min_per_class)
        choices = decided(job, choices, overrides)
        select_stage(job, choices, ratio or ())
        evaluate_stage(job, executor, choices, ratio or ())
    if not quiet:
        print_summary(job)
