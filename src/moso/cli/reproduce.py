"""`moso reproduce`: figures and tables of the paper, cell by cell, continued from their result tables."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from moso.cli.options.flags import Flags, Quiet, local_option, option, with_flags
from moso.cli.options.panels import DATA, OUTPUT, PLACE, PROOF, SELECTION


@dataclass(frozen=True)
class ReproduceOptions(Flags):
    """Which part of an experiment is run, for how long, and where its files are."""

    preset: Annotated[str, option("--preset", panel=DATA, help="cpu (small networks) or paper (the paper's own)")] = (
        "cpu"
    )
    data: Annotated[Path, option("--data", panel=DATA, help="folder of the data sets")] = Path("data")
    only: Annotated[
        list[str] | None,
        option(
            "--only",
            panel=SELECTION,
            help="METHOD, or NAME=VALUE with arm, method, selector, ratio, seed; may be repeated",
        ),
    ] = None
    seeds: Annotated[int | None, option("--seeds", panel=PROOF, help="number of seeds [default: as declared]")] = None
    jobs: Annotated[int, option("--jobs", panel=PLACE, help="processes in parallel")] = 1
    hours: Annotated[float | None, option("--hours", panel=PLACE, help="start no new cell after so many hours")] = None
    results: Annotated[Path, option("--results", panel=OUTPUT, help="folder of the result tables")] = Path(
        "docs/results"
    )
    out: Annotated[Path, local_option("--out", help="folder of the run directories")] = Path("runs/reproduce")
    page: Annotated[bool, option("--page", panel=OUTPUT, help="only write page and plots, from the table")] = False
    scores: Annotated[
        Path | None, option("--scores", panel=OUTPUT, help="only write MoSo scores of finished runs to FILE.parquet")
    ] = None
    dry_run: Annotated[
        bool, option("--dry-run", panel=OUTPUT, help="say what is left to do and how long it takes, and stop")
    ] = False
    quiet: Quiet = False


@with_flags
def reproduce_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="experiments, or 'all' for every one of the preset; without a name, they are listed",
            show_default=False,
        ),
    ] = None,
    *,
    options: ReproduceOptions,
) -> None:
    """Run figures and tables of the paper; finished cells are in a table and never run again.

    Experiments that are run together share networks and scores, and go seed by seed.
    """
    from moso.cli.reproduce_work import carry_out

    carry_out(names or [], options)
