"""The command line's reference: one page per verb, from the verbs themselves."""

from typing import Any

import typer

from moso.cli.main import app
from moso.cli.options.help_layout import described_flags
from moso.cli.verbs import VERBS


def command_pages() -> dict[str, str]:
    """Return the page of every verb, by its address on the site."""
    group: Any = typer.main.get_command(app)
    context = group.context_class(group, info_name="moso", max_content_width=100)
    pages = {}
    for verb, entry in VERBS.items():
        command = group.get_command(context, verb)
        own = command.context_class(command, parent=context, info_name=verb)
        parts = [f"# moso {verb}", _words(command.help or entry.summary), f"    {entry.example}", _usage(command, own)]
        for heading, rows in described_flags(command, own).items():
            parts += [f"## {heading}", "| name | meaning |\n| --- | --- |\n" + "\n".join(_row(*row) for row in rows)]
        pages[f"reference/commands/{verb}.md"] = "\n\n".join(parts) + "\n"
    return pages


def verb_list() -> str:
    """Return the verbs with their summaries under their headings, linked to their pages."""
    parts: list[str] = []
    for group in dict.fromkeys(verb.group for verb in VERBS.values()):
        rows = [f"| [`moso {name}`](commands/{name}.md) | {verb.summary} |" for name, verb in VERBS.items()
                if verb.group == group]  # fmt: skip
        parts += [f"## {group}", "| verb | what it does |\n| --- | --- |\n" + "\n".join(rows)]
    return "\n\n".join(parts)


def _usage(command: Any, context: Any) -> str:
    return f"`{command.get_usage(context).removeprefix('Usage: ')}`"


def _words(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _row(names: str, text: str) -> str:
    plain = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    return f"| `{names.replace('|', chr(92) + '|')}` | {plain} |"
