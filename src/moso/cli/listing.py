"""`moso methods | models | datasets`: lists of what is available."""

import json
from collections.abc import Sequence
from typing import Any

import typer

from moso.cli.options.flags import Json

# Columns of the printed tables; the JSON has all columns.
_COLUMNS = {
    "score": ("name", "keep", "hard", "needs", "description"),
    "selector": ("name", "needs", "settings", "description"),
}
# Traits of methods: marks and keys.
_TRAITS = {"L": "without_labels", "T": "without_training", "E": "embeddings_alone"}
_WIDTHS = {"when to use it": 5, "cost": 4}  # shares of what names and marks leave
_MARKS = "L: works without labels.  T: trains no network.  E: an embedding of the samples is enough."


def methods(as_json: Json = False) -> None:
    """List methods by family, scores and selectors: when to use them, what they need, cost and can be told."""
    from moso.cli.printed_tables import console
    from moso.evaluation.baselines import BASELINES
    from moso.methods import FAMILIES, listing

    rows = [*listing(), *(_of_baseline(name, text) for name, text in BASELINES.items())]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    for family in FAMILIES:
        own = [row for row in rows if row.get("family") == family]
        _print(family, ("name", "", "when to use it", "cost"), [_of_method(row) for row in own])
    console().print(_MARKS)
    console().print()
    for kind, names in _COLUMNS.items():
        _print(f"{kind}s", names, [[_text(row[name]) for name in names] for row in rows if row["kind"] == kind])
    console().print("settings: --setting coverage.cut=0.2, or coverage.cut = 0.2 under [settings] in a TOML file")


def _of_baseline(name: str, text: str) -> dict[str, Any]:
    """Return a baseline of `moso compare` as a row: it prunes nothing, and costs what a pruned training costs."""
    costs = "as many updates as the pruned training"
    known = {"name": name, "kind": "baseline", "family": "baselines", "when": f"{text} (--baseline {name})"}
    return {**known, **dict.fromkeys(_TRAITS.values(), False), "description": text, "needs": "", "cost": costs}


def _of_method(row: dict[str, Any]) -> list[str]:
    marks = " ".join(mark if row[key] else " " for mark, key in _TRAITS.items())
    return [row["name"], marks, row["when"], row["cost"]]


def _print(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table

    from moso.cli.printed_tables import console

    if not rows:
        return
    table = Table(box=None, title=title, title_justify="left", title_style="bold", expand="when to use it" in columns)
    for name in columns:
        table.add_column(name, no_wrap=name in ("name", ""), ratio=_WIDTHS.get(name))
    for row in rows:
        table.add_row(*row)
    console().print(table)
    console().print()


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
    names = [name for name in ("name", "kind", "description") if name in rows[0]]
    _print("", names, [[row[name] for name in names] for row in rows])
