"""`moso report`: a single file that shows what was kept, what was dropped, and why."""

from typing import Annotated

import typer

from moso.cli.options.flags import Quiet, RunArgument, option
from moso.cli.options.panels import OUTPUT

# `report.page.page.MAX_MEGABYTES`, which a test holds against this.
MEGABYTES = 25.0

MaxMegabytes = Annotated[
    float,
    option("--max-mb", panel=OUTPUT, min=1, help="largest size of the file in MB; fewer pictures if they do not fit"),
]


Against = Annotated[
    str | None,
    option("--against", panel=OUTPUT, metavar="RUN", help="another run over the same samples, to compare with"),
]


def report(run: RunArgument, against: Against = None, max_mb: MaxMegabytes = MEGABYTES, quiet: Quiet = False) -> None:
    """Write report.html, a page that opens offline, from what the run has."""
    from moso.report.page.page import write_report
    from moso.results.reading import Run

    opened = Run.open(run)
    path = write_report(opened, max_mb, None if against is None else Run.open(against))
    opened.directory.push(path)
    if not quiet:
        typer.echo(opened.directory.named(path))
