"""What the verbs that do work share: opening a job, choosing an executor, holding the directory."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, cast

import typer

from moso.cli.workplace import Workplace
from moso.configuration import Configuration
from moso.configuration.configuration import available_device
from moso.configuration.resolved_method import ResolvedMethod, read_settings
from moso.errors import MosoError
from moso.results.directory import RunDirectory
from moso.results.overrides import keep_overrides
from moso.run.imported_scores import LISTED, find_choices, import_list, import_scores
from moso.run.job import Job, Runtime
from moso.run.stages import Executor, begin
from moso.scores import Hard
from moso.selection import selectors as known_selectors
from moso.storage.store import is_address

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="run directory, or an address such as s3://bucket/run", show_default=False)
]
LoaderWorkers = Annotated[
    int, typer.Option("--loader-workers", min=0, help="decoding processes a training, for data beyond memory")
]
CheckpointSeconds = Annotated[
    float, typer.Option("--checkpoint-seconds", min=0, help="seconds between saved positions of a training")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="no progress, no table")]
Methods = Annotated[list[str] | None, typer.Option("--method", help="method; may be repeated", show_default=False)]
Selectors = Annotated[
    list[str] | None, typer.Option("--selector", help="selector; may be repeated", show_default=False)
]
Ratios = Annotated[
    list[float] | None, typer.Option("--ratio", help="share to remove; may be repeated", show_default=False)
]
SelectorSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--setting", help="SELECTOR.SETTING=VALUE, e.g. coverage.cut=0.2; may be repeated", show_default=False
    ),
]
MinPerClass = Annotated[
    int | None, typer.Option("--min-per-class", min=0, help="samples that every class keeps", show_default=False)
]
OwnScores = Annotated[
    Path | None,
    typer.Option("--scores", help="scores of your own: .npy, or a .parquet or .csv with id, score", show_default=False),
]
OwnIndices = Annotated[
    Path | None,
    typer.Option(
        "--indices", help="a list of what stays: .npy positions, or ids in .parquet, .csv, .txt", show_default=False
    ),
]
OwnName = Annotated[str | None, typer.Option("--name", help="what your scores or list are called", show_default=False)]
OwnHard = Annotated[
    str | None,
    typer.Option("--hard", help="the end of your scores where hard samples are: high, low", show_default=False),
]

Decisions = Annotated[
    Path | None,
    typer.Option(
        "--overrides", help="decisions by hand, as the page saves them: a .csv with id, decision", show_default=False
    ),
]


def default_out(configuration: Configuration) -> Path:
    """Where a run goes that was not told: a folder named after its data and its configuration."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", Path(configuration.dataset).name).strip("-") or "run"
    return Path("runs") / f"{name}-{configuration.digest()[:8]}"


@contextmanager
def working(job: Job, workplace: Workplace, quiet: bool) -> Iterator[Executor]:
    """The run directory, locked and found in order, and an executor for its pieces; a follower never gets there."""
    if not workplace.leads:
        workplace.follow(job)
        raise typer.Exit
    if not workplace.far:
        available_device(job.configuration.device)
    with job.directory.locked():
        begin(job)
        with workplace.executor_for(job.configuration, quiet) as executor:
            yield executor


def open_job(run: str, runtime: Runtime | None = None) -> Job:
    """The job of a run directory that is already there."""
    directory = RunDirectory.at(run)
    directory.pull()
    directory.configuration()
    return Job.open(directory, runtime=runtime)


def local_path(text: str | Path) -> Path:
    """A path of this machine, as a flag's value; an address is refused where it would become a folder of that name."""
    if is_address(text):
        raise MosoError(f"{text} is an address, and this is written on this machine alone; give a path")
    return Path(text)


def asked_choices(
    job: Job,
    methods: list[str] | None,
    selectors: list[str] | None,
    settings: list[str] | None = None,
    min_per_class: int | None = None,
) -> list[ResolvedMethod]:
    """The methods and selectors a user asked for, resolved; without a word, those of the configuration."""
    asking = _with_settings(job, settings or [], min_per_class)
    if not methods and not selectors:
        return find_choices(asking)
    named = list(methods or job.configuration.methods)
    if "all" in named:
        every = asking.configuration.model_copy(update={"selectors": tuple(selectors or ())})
        named = list(every.possible_methods())
    ways: Sequence[str | None] = selectors or [None]
    return find_choices(asking, [(method, selector) for method in named for selector in ways])


def decided(job: Job, choices: list[ResolvedMethod], overrides: Path | None) -> list[ResolvedMethod]:
    """The same choices with a user's decisions by hand, which are put into the run."""
    if overrides is None:
        return choices
    for choice in choices:
        if choice.selector.name == LISTED:
            raise MosoError(f"{choice.method!r} is a list of your own; change the list, --overrides is for selectors")
    digest = keep_overrides(job.directory.root, overrides, job.data.train)
    return [replace(choice, overrides=digest) for choice in choices]


def _with_settings(job: Job, settings: list[str], min_per_class: int | None) -> Job:
    """The job as if its run had other settings of selectors; those of scores have made the run's scores already."""
    given = read_settings(settings)
    of_scores = sorted(set(given) - set(known_selectors()))
    if of_scores:
        raise MosoError(f"{of_scores[0]!r} is a score, and this run's has its settings already; use another --out")
    merged = {**job.configuration.settings}
    for owner, values in given.items():
        merged[owner] = {**merged.get(owner, {}), **values}
    least = job.configuration.min_per_class if min_per_class is None else min_per_class
    changed = job.configuration.model_copy(update={"settings": merged, "min_per_class": least})
    return replace(job, configuration=changed)


def brought(job: Job, name: str | None, scores: Path | None, indices: Path | None, hard: str | None) -> list[str]:
    """Put a score or a list of the user's into the run; the name under which it is there now."""
    if scores is None and indices is None:
        if name is not None or hard is not None:
            raise MosoError("--name and --hard belong to --scores FILE or --indices FILE")
        return []
    if scores is not None and indices is not None:
        raise MosoError("give --scores or --indices, not both; what stays is decided once")
    if name is None:
        raise MosoError("what you bring needs a name of its own; give --name")
    if indices is not None:
        import_list(job, name, indices)
    elif scores is not None:
        if hard not in (None, "high", "low"):
            raise MosoError(f"--hard {hard} must be high or low, the end of the scores where the hard samples are")
        import_scores(job, name, scores, cast(Hard | None, hard))
    return [name]
