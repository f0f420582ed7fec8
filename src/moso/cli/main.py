"""The command `moso`: the group of its verbs, and the handling of errors.

Exit codes: 0 done; 2 an error of the user or the environment (one sentence, no traceback); 1 an error of moso; 130
stopped by Ctrl-C.
"""

import sys
import warnings
from typing import Annotated

import typer

from moso.cli.options.help_layout import LazyGroup
from moso.errors import MosoError
from moso.version import __version__

app = typer.Typer(
    cls=LazyGroup,
    help="Prune training data and prove it: which samples can go, and what that costs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 110},
)


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
    if (sys.argv[1:] if arguments is None else arguments) == ["--version"]:
        print(__version__)  # Typer would import pydantic to read the flag
        sys.exit(0)
    warnings.showwarning = _notice
    try:
        app(arguments, prog_name="moso")
    except MosoError as problem:
        _leave(str(problem))
    except OSError as problem:
        # For example a full disk, or a directory without write permission: finished work stays intact.
        where = f" ({problem.filename})" if problem.filename else ""
        _leave(f"{problem.strerror or problem}{where}; what was complete is kept")


def _leave(sentence: str) -> None:
    print(f"moso: error: {sentence}", file=sys.stderr)
    sys.exit(2)
