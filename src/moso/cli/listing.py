"""`moso methods | models | datasets`: lists of what is available."""

import json
from typing import Any

import typer

from moso.cli.options.flags import Json

# Columns of the printed tables; the JSON has all columns.
_COLUMNS = {
    "method": ("name", "score", "selector", "needs", "description"),
    "score": ("name", "keep", "hard", "needs", "description"),
    "selector": ("name", "needs", "settings", "description"),
}


def methods(as_json: Json = False) -> None:
    """List methods, scores and selectors: what they need, which end they keep, what they can be told."""
    from rich.table import Table

    from moso.cli.printed_tables import console
    from moso.methods import listing

    rows = listing()
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    for kind, names in _COLUMNS.items():
        table = Table(box=None, title=f"{kind}s", title_justify="left", title_style="bold")
        for name in names:
            table.add_column(name, no_wrap=name in ("name", "score", "selector"))
        for row in rows:
            if row["kind"] == kind:
                table.add_row(*(_text(row[name]) for name in names))
        console().print(table)
        console().print()
    console().print("settings: --setting coverage.cut=0.2, or coverage.cut = 0.2 under [settings] in a TOML file")


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={_default(entry)}" for name, entry in value.items())
    return "-" if value in (None, "") else str(value)


def _default(entry: Any) -> str:
    return str(entry["default"] if isinstance(entry, dict) else entry)


def models(as_json: Json = False) -> None:
    """List networks; timm:NAME and package.module:factory work too."""
    from moso.models import models as known_models

    _show([{"name": name, "description": text} for name, text in known_models()], as_json)


def datasets(as_json: Json = False) -> None:
    """List data sets and the forms of paths to your own."""
    from moso.data.dataset import datasets as known_datasets

    _show([{"name": name, "description": text} for name, text in known_datasets()], as_json)


def _show(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.table import Table

    from moso.cli.printed_tables import console

    table = Table(box=None)
    names = [name for name in ("name", "kind", "description") if name in rows[0]]
    for name in names:
        table.add_column(name, no_wrap=name == "name")
    for row in rows:
        table.add_row(*(row[name] for name in names))
    console().print(table)
