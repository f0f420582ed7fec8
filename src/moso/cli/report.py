"""`moso report`: a single file that shows what was kept, what was dropped, and why."""

from typing import Annotated

import typer

from moso.cli.flags import Quiet, RunArgument
from moso.report.page.page import MAX_MEGABYTES, write_report
from moso.results.reading import Run

MaxMegabytes = Annotated[
    float, typer.Option("--max-mb", min=1, help="largest size of the file; fewer pictures where they do not all fit")
]


Against = Annotated[
    str | None,
    typer.Option(
        "--against", metavar="RUN", help="another run over the same samples, to compare with", show_default=False
    ),
]


def report(
    run: RunArgument, against: Against = None, max_mb: MaxMegabytes = MAX_MEGABYTES, quiet: Quiet = False
) -> None:
    """Write report.html, a page that opens offline, from what the run has."""
    opened = Run.open(run)
    path = write_report(opened, max_mb, None if against is None else Run.open(against))
    opened.directory.push(path)
    if not quiet:
        typer.echo(opened.directory.named(path))
