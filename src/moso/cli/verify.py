"""`moso verify`: read every file of a run and say what is whole, damaged and missing."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from moso.cli.options.flags import Json, RunArgument, option
from moso.cli.options.panels import OUTPUT

if TYPE_CHECKING:
    from moso.results.directory import RunDirectory
    from moso.results.verification import Verification

Repair = Annotated[
    bool,
    option("--repair", panel=OUTPUT, help="set damaged files aside in damaged/, so that the run's command redoes them"),
]


def verify(run: RunArgument, repair: Repair = False, as_json: Json = False) -> None:
    """Compare every file of a run with its checksum.

    Exit code 0: everything is whole, or was set aside by --repair. Exit code 2: files are damaged or missing.
    """
    from moso.results import verification
    from moso.results.directory import RunDirectory

    directory = RunDirectory.at(run)
    if repair:
        directory.check_there()
        with directory.locked():
            found = verification.repair(directory)
    else:
        found = verification.verify(directory)
    typer.echo(json.dumps({"run": str(directory), **asdict(found)}) if as_json else "\n".join(_lines(directory, found)))
    left = [one.file for one in found.damaged if not repair or one.file == verification.CONFIGURATION]
    if left or (found.missing and not repair):
        raise typer.Exit(2)


def _lines(directory: "RunDirectory", found: "Verification") -> list[str]:
    lines = [f"{directory}: {found.whole} files are whole, {found.without} have no checksum"]
    for one in found.damaged:
        aside = "set aside" if found.repaired and one.file != "run.toml" else "damaged"
        lines.append(f"  {aside:<9} {one.file}: {one.reason}; {one.remedy}")
    lines += [f"  missing   {name}: the run's own command does it again" for name in found.missing]
    if found.is_whole:
        lines.append("  nothing is damaged, nothing is missing")
    return lines
