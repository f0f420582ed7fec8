"""`moso compare`: many methods, selectors, ratios and seeds on one data set, beside baselines of equal cost."""

from pathlib import Path
from typing import Annotated

import typer

from moso import errors
from moso.analysis.comparison import comparison
from moso.analysis.estimate import estimate
from moso.analysis.verdict import verdict_of
from moso.analysis.wording import count_of
from moso.cli.configuration_flags import RunSettings
from moso.cli.executor_options import ExecutorOptions
from moso.cli.flags import DryRun, with_flags
from moso.cli.printed_tables import console, print_plan, print_tables, print_verdict
from moso.cli.run import Out, new_job
from moso.cli.work import working
from moso.evaluation.baselines import BASELINES
from moso.report.comparison.compare_files import write_comparison
from moso.report.comparison.compare_tables import main_tables, tables
from moso.report.page.page import write_report
from moso.results.reading import Run
from moso.run.stages import check_own
from moso.run.stages import compare as carry_out
from moso.storage.store import is_address

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN|RUN.TOML",
        help="a run directory, whose tables are made again without computing; or settings in a file",
        show_default=False,
    ),
]


@with_flags
def compare(
    target: Target = None,
    out: Out = None,
    scores: Annotated[
        list[str] | None,
        typer.Option("--scores", help="NAME=FILE of scores of your own, high means keep", show_default=False),
    ] = None,
    indices: Annotated[
        list[str] | None,
        typer.Option("--indices", help="NAME=FILE that lists what you keep", show_default=False),
    ] = None,
    *,
    options: ExecutorOptions,
    dry_run: DryRun = False,
    settings: RunSettings,
) -> None:
    """Retrain on what every method keeps at every ratio, and say which did better, by how much, and at what cost."""
    own = _named("--scores", scores), _named("--indices", indices)
    if target is not None and (is_address(target) or Path(target).is_dir()):
        flags = {"--scores": scores, "--indices": indices, "--out": out, "--dry-run": dry_run}
        given = [flag for flag, value in flags.items() if value]
        given += [
            f"--{name.removesuffix('s') if isinstance(value, list) else name}"
            for name, value in settings.given.items()
            if name != "tolerance"
        ]
        if given:
            raise errors.SettingsConflict(
                f"{target} is a run, and its tables are made again as it is; "
                f"{given[0].replace('_', '-')} is for a new comparison (`moso compare --out ...`)"
            )
        _show(Run.open(target), settings.given.get("tolerance"), options.quiet)
        return
    job = new_job(None if target is None else Path(target), out, options, settings, {"baselines": list(BASELINES)})
    check_own(job, *own)
    if dry_run:
        print_plan(job, estimate(job, options.worker_count(job.configuration)))
        return
    with working(job, options) as executor:
        carry_out(job, executor, *own)
        write_report(Run(job.directory))
    _show(Run(job.directory), None, options.quiet)


def _show(run: Run, tolerance: float | None, quiet: bool) -> None:
    verdict = verdict_of(run, tolerance)
    found = comparison(run, verdict.tolerance)
    if not run.manifest["stages"].get("evaluate", {}).get("complete"):
        done = count_of(len(run.evaluation()), "retraining")
        typer.echo(f"moso: notice: only {done} of {run.directory} are done; `moso evaluate` does the rest", err=True)
    folder = write_comparison(run, found, tables(found))
    run.directory.push(folder)
    if not quiet:
        print_tables(main_tables(found))
        print_verdict(verdict)
        console().print(
            f"see {run.directory.named(folder / 'comparison.md')}, and tables and plots beside it", soft_wrap=True
        )


def _named(flag: str, given: list[str] | None) -> list[tuple[str, Path]]:
    found = []
    for text in given or ():
        name, equals, file = text.partition("=")
        if not (name and equals and file):
            raise errors.SettingInvalid(f"{flag} {text}: give it as NAME=FILE, such as mine=scores.parquet")
        found.append((name, Path(file)))
    return found
