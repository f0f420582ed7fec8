"""`moso methods | models | datasets`: what there is."""

import json
from typing import Annotated, Any

import typer
from rich.table import Table

from moso.cli.summary import console
from moso.data.dataset import datasets as known_datasets
from moso.methods import listing
from moso.models import models as known_models

Json = Annotated[bool, typer.Option("--json", help="a list of objects, for programs")]


def methods(as_json: Json = False) -> None:
    """List methods, scores and selectors."""
    _show(listing(), as_json)


def models(as_json: Json = False) -> None:
    """List networks; timm:NAME and package.module:factory work too."""
    _show([{"name": name, "description": text} for name, text in known_models()], as_json)


def datasets(as_json: Json = False) -> None:
    """List data sets and the forms of paths to your own."""
    _show([{"name": name, "description": text} for name, text in known_datasets()], as_json)


def _show(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(box=None)
    names = [name for name in ("name", "kind", "description") if name in rows[0]]
    for name in names:
        table.add_column(name, no_wrap=name == "name")
    for row in rows:
        table.add_row(*(row[name] for name in names))
    console().print(table)
