"""The engine: runs the missing cells of declarations and adds each to the result tables."""

import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from moso import errors
from moso.executors import local_executor
from moso.experiments.cells import Cell, by_pipeline, cells_of, only
from moso.experiments.declaration import Experiment, Grid
from moso.experiments.exact_cells import ExactCell, exact_cells, exact_row
from moso.experiments.pipeline import OutOfTime, Paced, carry_out
from moso.experiments.results import Results, Row
from moso.progress import Progress, silent
from moso.run.job import Runtime

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Asked:
    """The user's request: which cells, and how to run them.

    Attributes:
        only: Filters as in `cells.only`.
        seeds: Number of seeds; None means the declared number.
        jobs: Number of processes.
        hours: Time limit after which no further piece of work starts; None means no limit.
        data: Folder of the data sets.
        results: Folder of the result tables.
        out: Folder of the run directories.
    """

    preset: str = "cpu"
    only: tuple[str, ...] = ()
    seeds: int | None = None
    jobs: int = 1
    hours: float | None = None
    data: Path = Path("data")
    results: Path = Path("docs/results")
    out: Path = Path("runs/reproduce")

    def check(self) -> None:
        """Check the request before any work starts.

        Raises:
            SettingInvalid: `seeds`, `jobs` or `hours` is out of range.
        """
        if self.seeds is not None and self.seeds < 1:
            raise errors.SettingInvalid(f"--seeds {self.seeds}: at least one seed is needed")
        if self.jobs < 1:
            raise errors.SettingInvalid(f"--jobs {self.jobs}: at least one process is needed")
        if self.hours is not None and not self.hours >= 0:
            raise errors.SettingInvalid(f"--hours {self.hours:g}: give a number of hours, or leave it out")


@dataclass(frozen=True)
class Outcome:
    """The progress of experiments: cells in all, finished cells, newly finished cells, and whether time ran out."""

    cells: int
    finished: int
    new: int
    out_of_time: bool


def wanted(experiment: Experiment, asked: Asked) -> Sequence[Cell | ExactCell]:
    """Return the requested cells of one experiment.

    Raises:
        SettingInvalid: The filter `only` leaves no cell, or does not apply.
    """
    declared = experiment.of(asked.preset)
    if isinstance(declared, Grid):
        if asked.only:
            raise errors.SettingInvalid(f"--only: {experiment.name} retrains nothing; its cells are done in minutes")
        return exact_cells(declared, asked.seeds)
    return only(cells_of(declared, asked.seeds), asked.only)


def wanted_of_all(experiments: Sequence[Experiment], asked: Asked) -> dict[str, Sequence[Cell | ExactCell]]:
    """Return the requested cells by experiment, without experiments of which `--only` leaves nothing."""
    if len(experiments) == 1:
        return {experiments[0].name: wanted(experiments[0], asked)}
    found = {one.name: wanted(one, replace(asked, only=())) for one in experiments}
    if asked.only:
        retrained = [cell for own in found.values() for cell in own if isinstance(cell, Cell)]
        left = {cell.key for cell in only(retrained, asked.only)}
        found = {name: [cell for cell in own if cell.key in left] for name, own in found.items()}
    return {name: own for name, own in found.items() if own}


def missing(cells: Mapping[str, Sequence[Cell | ExactCell]], finished: Container[str]) -> list[Cell | ExactCell]:
    """Return the unfinished cells of several experiments, each once; ordered by seed, so that pipelines are shared."""
    found = {cell.key: cell for own in cells.values() for cell in own if cell.key not in finished}
    return sorted(found.values(), key=lambda cell: cell.retraining.seed if isinstance(cell, Cell) else -1)


def reproduce(
    experiments: Sequence[Experiment],
    asked: Asked,
    progress: Progress = silent,
    told: Callable[[Row, int, int], None] | None = None,
    runtime: Runtime | None = None,
) -> Outcome:
    """Run the requested cells that are in no table yet; add each at once to all tables that contain it.

    Args:
        experiments: The experiments.
        asked: The user's request.
        progress: Callback that is told how far a piece of work is.
        told: Called as `told(row, finished, cells)` for every new cell.
        runtime: How pieces of work run, without effect on their results.

    Returns:
        How far the experiments are.
    """
    asked.check()
    cells = wanted_of_all(experiments, asked)
    keys = {cell.key for own in cells.values() for cell in own}
    tables = {name: Results.open(asked.results, name) for name in cells}
    asking: dict[str, list[Results]] = {}
    for name, own in cells.items():
        tables[name].take_over([cell.key for cell in own])
        for cell in own:
            asking.setdefault(cell.key, []).append(tables[name])
    done = {key for key in keys if key in asking[key][0].rows}
    new = 0

    def finished(row: Row) -> None:
        nonlocal new
        for table in asking[row["key"]]:
            table.add(row)
        done.add(row["key"])
        new += 1
        if told is not None:
            told(row, len(done), len(keys))

    deadline = None if asked.hours is None else time.monotonic() + asked.hours * SECONDS_PER_HOUR
    out_of_time = False
    try:
        with local_executor(asked.jobs, progress) as executor:
            paced = Paced(executor, deadline)
            _do(missing(cells, done), asked, paced, finished, progress, runtime)
    except OutOfTime:
        out_of_time = True
    return Outcome(len(keys), len(done), new, out_of_time)


def _do(
    cells: Sequence[Cell | ExactCell],
    asked: Asked,
    paced: Paced,
    finished: Callable[[Row], None],
    progress: Progress,
    runtime: Runtime | None,
) -> None:
    for cell in cells:
        if isinstance(cell, ExactCell):
            paced.check()
            finished(exact_row(cell, asked.data, progress))
    for own in by_pipeline(cell for cell in cells if isinstance(cell, Cell)):
        carry_out(own, asked.data, asked.out, paced, finished, runtime)
