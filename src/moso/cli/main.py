"""The command `moso`: its verbs, and the handling of errors.

Exit codes: 0 done; 2 an error of the user or the environment (one sentence, no traceback); 1 an error of moso.
"""

import sys
import warnings
from typing import Annotated

import typer

from moso.cli import listing, run
from moso.cli import stage_verbs as stages
from moso.cli.compare import compare
from moso.cli.embed import embed
from moso.cli.exact import exact
from moso.cli.explore import explore
from moso.cli.export import export
from moso.cli.report import report
from moso.cli.reproduce import reproduce_command
from moso.cli.status import status
from moso.cli.suspects import suspects
from moso.errors import MosoError
from moso.version import __version__

app = typer.Typer(
    help="Prune training data and prove it: what each sample is worth, what can be dropped, what that costs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for verb in (run.run, embed, run.train, stages.score, stages.select, stages.evaluate, report, explore, export, compare):
    app.command()(verb)
app.command("reproduce")(reproduce_command)
for verb in (status, suspects, exact, listing.methods, listing.models, listing.datasets):
    app.command()(verb)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def _notice(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    print(f"moso: notice: {message}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    warnings.showwarning = _notice
    try:
        app(arguments)
    except MosoError as problem:
        _leave(str(problem))
    except OSError as problem:
        # For example a full disk, or a directory without write permission: finished work stays intact.
        where = f" ({problem.filename})" if problem.filename else ""
        _leave(f"{problem.strerror or problem}{where}; what was complete is kept")


def _leave(sentence: str) -> None:
    print(f"moso: error: {sentence}", file=sys.stderr)
    sys.exit(2)
