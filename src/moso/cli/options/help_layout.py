"""Help: verbs and flags under headings, whole sentences, defaults, an example for every verb.

Typer's own panels are drawn by Rich, which reads brackets as markup (`moso-prune[ray]` loses its extra) and takes as
long to import as everything else here; its plain help cuts the lines of verbs.
"""

from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from moso.cli.options.panels import FILES, OUTPUT, PANELS
from moso.cli.verbs import RESUMABLE, VERBS
from moso.errors import unknown_name

_OTHER = "Options"
# Longest list of names that shares a line with its help.
_NAMES = 30


class PanelCommand(TyperCommand):
    """A verb whose help lists flags under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then flags by heading."""
        for heading, rows in described_flags(self, ctx).items():
            with formatter.section(heading):
                formatter.write_dl(rows, col_max=_NAMES)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example of the verb."""
        verb = VERBS.get(ctx.info_name or "")
        if verb is not None:
            with formatter.section("Example"):
                formatter.write(f"{'':>{formatter.current_indent}}{verb.example}\n")


class LazyGroup(TyperGroup):
    """The command `moso`: verbs by heading, each imported when it is called or its help is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: D102 - as in Typer
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: D102 - as in Typer
        if cmd_name not in VERBS:
            return None
        if cmd_name not in self.commands:
            alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
            function = VERBS[cmd_name].load()
            # One line of help per verb, here and in the list of verbs; more is the function's own second paragraph.
            more = (function.__doc__ or "").partition("\n\n")[2]
            text = f"{VERBS[cmd_name].summary}\n\n{more}" if more else VERBS[cmd_name].summary
            alone.command(cmd_name, cls=PanelCommand, help=text, short_help=VERBS[cmd_name].summary)(function)
            self.commands[cmd_name] = typer.main.get_command(alone)
        return self.commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb of a command.

        Raises:
            UnknownName: There is no such verb.
        """
        if args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise unknown_name("verb", args[0], VERBS)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a verb; Ctrl-C ends it with one line.

        Raises:
            Exit: With code 130, after Ctrl-C.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            goes_on = ctx.invoked_subcommand in RESUMABLE
            typer.echo(f"moso: stopped{'; the same command resumes where it stopped' if goes_on else ''}", err=True)
            raise typer.Exit(130) from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write all verbs with their whole line of help, without importing any."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for name, verb in VERBS.items():
            rows.setdefault(verb.group, []).append((name, verb.summary))
        for heading, own in rows.items():
            with formatter.section(heading):
                formatter.write_dl(own)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the first command of a newcomer."""
        with formatter.section("Example"):
            indent = " " * formatter.current_indent
            formatter.write(f"{indent}{VERBS['run'].example}\n{indent}moso run --help\n")


def described_flags(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Return the arguments and flags of a verb with their help, under their headings in the order of help."""
    rows: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        if not getattr(parameter, "hidden", False):
            rows.setdefault(_heading(parameter), []).append(_row(parameter, ctx))
    order = [FILES, *PANELS, OUTPUT, _OTHER]
    return {heading: rows[heading] for heading in sorted(rows, key=order.index)}


def _heading(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return FILES
    return getattr(parameter, "rich_help_panel", None) or _OTHER


def _row(parameter: Any, ctx: Any) -> tuple[str, str]:
    """Return the names of a flag or argument with its value, and its help with the default."""
    text = parameter.help or ""
    if parameter.param_type_name == "argument":
        return parameter.metavar or parameter.name.upper(), text
    names = ", ".join([*sorted(parameter.opts, key=len), *parameter.secondary_opts])
    value = "" if parameter.is_flag else f" {parameter.metavar or _value(parameter, ctx)}"
    default = parameter.default
    if parameter.show_default and default not in (None, "", (), [], False) and not callable(default):
        text += f" [default: {_said(default)}]"
    return names + value, text


def _value(parameter: Any, ctx: Any) -> str:
    """Return what a flag takes, from the name that Typer gives its type (`<int range>`, `INTEGER`, ...)."""
    record = parameter.get_help_record(ctx)
    kind = "" if record is None else record[0].removeprefix(parameter.opts[0]).lower()
    for part, name in (("int", "N"), ("float", "NUMBER"), ("path", "PATH"), ("file", "PATH")):
        if part in kind:
            return name
    return "TEXT"


def _said(default: Any) -> str:
    many = isinstance(default, Iterable) and not isinstance(default, str)
    return ", ".join(map(str, default)) if many else str(default)
