"""`moso compare`: many methods, selectors, ratios and seeds on one data set, beside baselines of equal cost."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moso import errors
from moso.cli.options.configuration_flags import RunSettings, option_of
from moso.cli.options.executor_options import ExecutorOptions
from moso.cli.options.flags import DryRun, option, with_flags
from moso.cli.options.panels import SELECTION
from moso.cli.run import Out

if TYPE_CHECKING:
    from moso.results.reading import Run

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN|RUN.TOML",
        help="a run directory, whose tables are written again without computing; or settings in a file",
        show_default=False,
    ),
]

# Scores or lists of the user: name and file of each.
Named = list[tuple[str, Path]]


@with_flags
def compare(
    target: Target = None,
    out: Out = None,
    scores: Annotated[
        list[str] | None,
        option("--scores", panel=SELECTION, help="NAME=FILE of scores of your own, high means keep; may be repeated"),
    ] = None,
    indices: Annotated[
        list[str] | None,
        option("--indices", panel=SELECTION, help="NAME=FILE of a list of kept samples; may be repeated"),
    ] = None,
    *,
    options: ExecutorOptions,
    dry_run: DryRun = False,
    settings: RunSettings,
) -> None:
    """Retrain on what every method keeps at every ratio, and say which did better, by how much, and at what cost."""
    from moso.storage.store import is_address

    own = _named("--scores", scores), _named("--indices", indices)
    if target is None or not (is_address(target) or Path(target).is_dir()):
        _compare(None if target is None else Path(target), out, own, options, dry_run, settings)
        return
    given = {"--scores": scores, "--indices": indices, "--out": out, "--dry-run": dry_run}
    _check_alone(target, [flag for flag, value in given.items() if value], settings)
    from moso.results.reading import Run

    _show(Run.open(target), settings.given.get("tolerance"), options.quiet)


def _compare(
    file: Path | None,
    out: str | None,
    own: tuple[Named, Named],
    options: ExecutorOptions,
    dry_run: bool,
    settings: RunSettings,
) -> None:
    """Carry out a new comparison, or go on with one."""
    from moso.cli.printed_tables import print_plan
    from moso.cli.work import new_job, working
    from moso.evaluation.baselines import BASELINES
    from moso.report.page.page import write_report
    from moso.results.reading import Run
    from moso.results.verification import mended
    from moso.run.stages import check_measurable, check_own
    from moso.run.stages import compare as carry_out

    job = new_job(file, out, options, settings, {"baselines": list(BASELINES)}, dry_run)
    check_measurable(job)
    check_own(job, *own)
    if dry_run:
        print_plan(job, options.worker_count(job.configuration))
        return
    with working(job, options, ("train", "score", "evaluate")) as executor:

        def work() -> None:
            carry_out(job, executor, *own)
            write_report(Run(job.directory))

        mended(job.directory, work)
    _show(Run(job.directory), None, options.quiet)


def _check_alone(target: str, given: list[str], settings: RunSettings) -> None:
    """Refuse flags of a new comparison beside a run whose tables are only written again."""
    given += [option_of(name) for name in settings.given if name != "tolerance"]
    if given:
        raise errors.SettingsConflict(
            f"{target} is a run, and its tables are written again as it is; {given[0]} is for a new comparison "
            "(`moso compare --out ...`)"
        )


def _show(run: "Run", tolerance: float | None, quiet: bool) -> None:
    from moso.analysis.comparison import comparison
    from moso.analysis.verdict import verdict_of
    from moso.analysis.wording import count_of
    from moso.cli.printed_tables import console, print_tables, print_verdict
    from moso.report.comparison.compare_files import write_comparison
    from moso.report.comparison.compare_tables import main_tables, tables

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


def _named(flag: str, given: list[str] | None) -> Named:
    found = []
    for text in given or ():
        name, equals, file = text.partition("=")
        if not (name and equals and file):
            raise errors.SettingInvalid(f"{flag} {text}: give it as NAME=FILE, such as mine=scores.parquet")
        found.append((name, Path(file)))
    return found
