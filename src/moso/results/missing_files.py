"""Files of a run that other files of the run declare to be there, and that are not.

What is declared does not depend on what a run was asked to do, so a run that is half done, or was carried out for some
methods only, misses nothing.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from moso.configuration import Configuration
from moso.errors import MosoError
from moso.evaluation.standings import RetrainingRow
from moso.evidence import sample_steps, terms_path
from moso.evidence.estimators import IN_RUN
from moso.evidence.layout import part_name
from moso.evidence.trajectory import point_path
from moso.files import read_record
from moso.methods import methods
from moso.results.directory import RunDirectory
from moso.results.retrainings import retraining_of
from moso.results.selections import all_selections, selection_path


def missing_files(directory: RunDirectory) -> list[str]:
    """Return the missing files of a run, as paths below its directory; damaged files declare nothing."""
    c, root = directory.configuration(), directory.root
    found = set(_of_results(directory, c))
    for seed in c.all_seeds():
        home = directory.of_seed(c, seed)
        found |= {*_of_training(home, c, seed), *_of_evidence(home)}
    if (root / "events.jsonl").exists():
        found.add(root / "manifest.json")
    return sorted(path.relative_to(root).as_posix() for path in found if not path.exists())


def _of_results(directory: RunDirectory, c: Configuration) -> Iterator[Path]:
    root, known = directory.root, methods()
    for path in (root / "evaluation").glob("*.json"):
        row = _record(path)
        made = retraining_of(cast(RetrainingRow, row)) if "parameters" in row else None
        if made is not None and not made.is_full_data and not made.is_baseline:
            yield selection_path(root, made.selection())
    try:
        selections = all_selections(root)
    except MosoError:
        return
    for one in selections:
        method = known.get(one.method)
        if method is not None and method.score is not None and one.seed in c.all_seeds():
            yield directory.of_seed(c, one.seed) / "scores" / f"{method.score}.parquet"


def _of_training(home: Path, c: Configuration, seed: int) -> Iterator[Path]:
    if not any((home / "state").glob("part-*/history.json")):
        return
    yield home / "state" / "initial.safetensors"
    for part in range(c.partitions):
        history = home / "state" / part_name(part) / "history.json"
        yield history
        folder = home / "trajectory" / part_name(part)
        total = _record(history).get("total_steps")
        if isinstance(total, int) and c.estimator != IN_RUN and any(folder.glob("step-*.safetensors")):
            yield from (point_path(folder, step) for step in sample_steps(total, c.time_steps, seed, c.sampling))


def _of_evidence(home: Path) -> Iterator[Path]:
    for note in home.glob("dynamics/*/dynamics.json"):
        yield from (note.with_name(f"{column}.npy") for column in _record(note).get("columns", ()))
    for note in home.glob("cross-terms*/*/complete.json"):
        yield from (terms_path(note.parent, step) for step in _record(note).get("steps", ()))
    for note in home.glob("scores/*.json"):
        yield note.with_suffix(".parquet")
    for table in home.glob("scores/*.parquet"):
        yield table.with_suffix(".json")


def _record(path: Path) -> dict[str, Any]:
    try:
        return read_record(path) if path.exists() else {}
    except MosoError:
        return {}
