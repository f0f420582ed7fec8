"""`moso explore`: the page of a run over all of its samples, served to a browser on this machine."""

from typing import Annotated

import typer

from moso.cli.options.flags import Quiet, RunArgument, option
from moso.cli.options.panels import OUTPUT
from moso.cli.report import Against

PORT = 8123


def explore(
    run: RunArgument,
    port: Annotated[
        int, option("--port", panel=OUTPUT, min=0, max=65535, help="port to listen on; 0 for any free one")
    ] = PORT,
    host: Annotated[
        str,
        option("--host", panel=OUTPUT, help="address to listen on; for other machines, the page's address has a token"),
    ] = "127.0.0.1",
    against: Against = None,
    quiet: Quiet = False,
) -> None:
    """Look at a run of any size in a browser, until Ctrl-C."""
    from moso.report.page.server import Explorer
    from moso.results.reading import Run

    other = None if against is None else Run.open(against)
    with Explorer(Run.open(run), host, port, other) as server:
        # Printed even with --quiet: without the address, which may contain a token, the page cannot be opened.
        typer.echo(server.address)
        if not quiet:
            typer.echo("stop with Ctrl-C", err=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
