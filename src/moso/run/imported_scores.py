"""Scores and lists of kept samples that the user imports into a run.

A score is an npy file with one number per sample in dataset order, or a table (Parquet, CSV) with a column `id` and a
column of numbers. A list is an npy file of positions or of one boolean per sample, a table with a column `id`, or a
text file with one id per line. Both get a name, under which they are selected, retrained and compared like built-in
methods.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
from numpy.typing import NDArray

from moso import errors
from moso.columns import Array
from moso.configuration.resolved_method import ResolvedMethod
from moso.data.samples import Samples
from moso.data.sources.table_columns import is_numeric
from moso.data.user_files import check_once, check_regular, read_npy, read_parquet, read_text
from moso.errors import unknown_name
from moso.evaluation.baselines import BASELINES
from moso.evaluation.summary import FULL
from moso.files import plain_cell
from moso.methods import Method, methods
from moso.results.score_files import read_scores, score_note, store_score
from moso.results.selections import Selection, all_selections, read_selection, write_selection, write_selections_view
from moso.run.computed_scores import write_view
from moso.run.job import Job
from moso.scores import Hard, Score
from moso.selection import Kept, Selector, kept_count
from moso.settings import Settings

Pair = tuple[str, str | None]
LISTED = "listed"  # in place of the name of a selector, for a list of kept samples
_SAID = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_SCORE_FORMS = "an .npy, .parquet or .csv file"
_LIST_FORMS = "an .npy, .parquet, .csv or .txt file"


def find_choices(job: Job, given: Sequence[ResolvedMethod | Pair] = ()) -> list[ResolvedMethod]:
    """Resolve choices given by (method, selector) or as objects; without any, return those of the run.

    Raises:
        MosoError: ``unknown-name``, ``method-impossible``.
    """
    found = [one if isinstance(one, ResolvedMethod) else find_choice(job, *one) for one in given]
    for choice in found:
        problem = job.configuration.problem(choice)
        if problem is not None:
            raise errors.MethodImpossible(problem)
    return found or job.configuration.choices()


def find_choice(job: Job, method: str, selector: str | Selector | None = None) -> ResolvedMethod:
    """Return a choice by name: a registered method, or a score or list that the user imported into the run.

    Args:
        job: The job of the run.
        method: Name of the method, score or list.
        selector: Selector in place of the default one.

    Raises:
        MosoError: ``unknown-name``.
    """
    known = methods()
    if method in known:
        return job.configuration.choice(method, selector)
    if any(one.method == method and one.selector == LISTED for one in all_selections(job.directory.root)):
        return listed(method)
    note = score_note(job.directory.of_seed(job.configuration, job.configuration.seed), method)
    if not note.get("own"):
        raise unknown_name("method", method, [*known, *_own_names(job)])
    own = Method(method, method, "balanced" if job.task.by_class else "top", "a score of the user's own")
    score = Score(method, own.description, _is_there, hard=note["hard"])
    choice = job.configuration.choice(own, selector, score)
    return replace(choice, is_own=True)


def import_scores(job: Job, name: str, path: Path, hard: Hard | None = None) -> None:
    """Import a user's score into the run, the same for every seed.

    Args:
        job: The job of the run.
        name: Name to give to the score.
        path: File of the score.
        hard: Which end of the score means hard samples; None if neither.

    Raises:
        MosoError: ``setting-invalid``, ``name-taken``, and those of `read_imported_scores`.
    """
    _check_name(name)
    values = read_imported_scores(path, job.data.train)
    for seed in job.configuration.all_seeds():
        home = job.directory.of_seed(job.configuration, seed)
        before = read_scores(home).get(name)
        if before is not None and not np.array_equal(before, values):
            raise errors.NameTaken(
                f"{job.directory} has other scores of the name {name!r} already; give these another name"
            )
        note = {"score": name, "seed": seed, "own": True, "file": path.name, "keep": "high", "hard": hard}
        store_score(home, name, job.data.train.ids, values, note)
        write_view(job, seed)


def import_list(job: Job, name: str, path: Path) -> tuple[ResolvedMethod, float]:
    """Import a user's list of kept samples as a selection, the same for every seed.

    Args:
        job: The job of the run.
        name: Name to give to the list.
        path: File of the list.

    Returns:
        The choice, and the share of samples that the list removes.

    Raises:
        MosoError: ``setting-invalid``, ``name-taken``, and those of `read_imported_list`.
    """
    _check_name(name)
    train = job.data.train
    kept = read_imported_list(path, train)
    # A list of the size that a ratio of the run keeps counts as that ratio.
    ratios = (one for one in job.configuration.ratios if kept_count(len(train), one) == len(kept))
    ratio = next(ratios, 1 - len(kept) / len(train))
    stays = np.isin(np.arange(len(train)), kept)
    for before in all_selections(job.directory.root):
        own = before.method == name and before.selector == LISTED
        if own and not np.array_equal(read_selection(job.directory.root, before), stays):
            raise errors.NameTaken(
                f"{job.directory} has another list of the name {name!r} already; give this list another name"
            )
    for seed in job.configuration.all_seeds():
        write_selection(job.directory.root, Selection(name, LISTED, ratio, seed), train.ids, Kept(kept))
    write_selections_view(job.directory.root)
    return listed(name), ratio


def listed(name: str) -> ResolvedMethod:
    """Return the choice of an imported list."""
    selector = Selector(LISTED, "what the user says", _is_there, frozenset())
    return ResolvedMethod(name, None, selector, Settings(), Settings(), is_own=True)


def ratios_of(job: Job, choice: ResolvedMethod, ratios: Sequence[float] = ()) -> Sequence[float]:
    """Return the ratios of a choice: those given or those of the run; for an imported list, the share it removes."""
    if choice.selector.name != LISTED:
        return ratios or job.configuration.ratios
    mine = (one for one in all_selections(job.directory.root) if one.method == choice.method)
    return sorted({one.ratio for one in mine if one.selector == LISTED})


def read_imported_scores(path: Path, samples: Samples) -> NDArray[np.float64]:
    """Read a user's score.

    Args:
        path: An npy, Parquet or CSV file.
        samples: The samples of the data set.

    Returns:
        One finite float per sample, in dataset order, shape ``[samples]``.

    Raises:
        MosoError: ``file-unreadable``, ``shape-mismatch``, ``length-mismatch``, ``values-not-finite``,
            ``ids-not-unique``, ``sample-unknown``, ``column-type``, ``data-ambiguous``.
    """
    if path.suffix == ".npy":
        values = _array(path, "a score")
        if values.ndim != 1 or values.dtype.kind not in "fiu":
            raise errors.ShapeMismatch(f"{path} holds {values.dtype} {values.shape}; a score is one number per sample")
        found, ids = values.astype(np.float64), None
    else:
        table = _table(path, _SCORE_FORMS)
        name = _number_column(path, table)
        kind = table.schema.field(name).type
        if not is_numeric(kind) or pa.types.is_nested(kind):
            raise errors.ColumnType(f"column {name!r} of {path} holds {kind}; a score is one number per sample")
        found = table[name].cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        ids = table["id"] if "id" in table.column_names else None
    if ids is None and len(found) != len(samples):
        raise errors.LengthMismatch(
            f"{path} has {len(found)} scores for {len(samples)} samples; give one each, or a column 'id'"
        )
    scores = found if ids is None else _by_id(path, ids, found, samples)
    if not np.isfinite(scores).all():
        bad = samples.ids[int(np.argmin(np.isfinite(scores)))]
        raise errors.ValuesNotFinite(f"{path} has no finite score for sample {bad}; every sample needs one")
    return scores


def read_imported_list(path: Path, samples: Samples) -> NDArray[np.int64]:
    """Read a user's list of kept samples.

    Args:
        path: An npy, Parquet, CSV or text file.
        samples: The samples of the data set.

    Returns:
        The kept positions, ascending, each once.

    Raises:
        MosoError: ``file-unreadable``, ``shape-mismatch``, ``sample-unknown``, ``ids-not-unique``, ``data-empty``,
            ``column-missing``, ``column-type``.
    """
    if path.suffix == ".npy":
        values = _array(path, "a list")
        if values.dtype == bool and values.shape == (len(samples),):
            positions = np.flatnonzero(values)
        elif values.ndim == 1 and values.dtype.kind in "iu":
            positions = values.astype(np.int64)
        else:
            raise errors.ShapeMismatch(
                f"{path} holds {values.dtype} {values.shape}; a list is positions, or true and false for every sample"
            )
    else:
        positions = _positions(path, _ids(path), samples)
    outside = (positions < 0) | (positions >= len(samples))
    if outside.any():
        raise errors.SampleUnknown(
            f"{path} keeps position {positions[np.argmax(outside)]}, but there are {len(samples)} samples"
        )
    unique = np.unique(positions)
    if len(unique) != len(positions):
        raise errors.IdsNotUnique(
            f"{path} names {len(positions) - len(unique)} samples twice; each stays once or not at all"
        )
    if len(unique) == 0:
        raise errors.DataEmpty(f"{path} keeps no sample; at least one is needed")
    return unique


def _ids(path: Path) -> pa.ChunkedArray:
    if path.suffix == ".txt":
        lines = [line.strip() for line in _text(path).splitlines()]
        return pa.chunked_array([pa.array([line for line in lines if line], pa.string())])
    table = _table(path, _LIST_FORMS)
    if "id" not in table.column_names:
        raise errors.ColumnMissing(
            f"{path} has no column 'id' (it has: {', '.join(table.column_names)}); it names what stays"
        )
    return table.filter(_truths(path, table["kept"]))["id"] if "kept" in table.column_names else table["id"]


def _truths(path: Path, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of true and false as people write them: 1 and 0, yes and no.

    Raises:
        ColumnType: A cell is neither.
    """
    if pa.types.is_boolean(column.type):
        return column
    said = [str(cell).strip().lower() for cell in column.to_pylist()]
    strange = next((cell for cell in said if cell not in _SAID), None)
    if strange is not None:
        raise errors.ColumnType(f"column 'kept' of {path} says {strange!r}; it is true or false, 1 or 0, yes or no")
    return pa.chunked_array([pa.array([_SAID[cell] for cell in said], pa.bool_())])


def _by_id(path: Path, ids: pa.ChunkedArray, values: NDArray[np.float64], samples: Samples) -> NDArray[np.float64]:
    positions = _positions(path, ids, samples)
    found, seen = np.full(len(samples), np.nan), np.zeros(len(samples), dtype=bool)
    found[positions] = values
    seen[positions] = True
    if len(positions) != seen.sum():
        raise errors.IdsNotUnique(
            f"{path} has {len(positions) - int(seen.sum())} ids twice; every sample has one score"
        )
    if not seen.all():
        missing = samples.ids[int(np.argmin(seen))]
        raise errors.LengthMismatch(
            f"{path} has no score for sample {missing} ({int((~seen).sum())} are missing in all)"
        )
    return found


def _positions(path: Path, ids: pa.ChunkedArray, samples: Samples) -> NDArray[np.int64]:
    try:
        cast = ids.cast(samples.ids.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        raise errors.ColumnType(
            f"the ids of {path} are {ids.type}, those of the data {samples.ids.type}: {problem}"
        ) from problem
    found = pc.index_in(cast, samples.ids)
    if path.suffix.lower() == ".csv" and pa.types.is_string(cast.type) and pc.any(pc.starts_with(cast, "'")).as_py():
        # As `moso export` writes ids that a spreadsheet would take for formulas; or as they are.
        found = pc.coalesce(pc.index_in(pa.array(map(plain_cell, cast.to_pylist()), cast.type), samples.ids), found)
    if found.null_count:
        unknown = cast.filter(pc.is_null(found))[0]
        raise errors.SampleUnknown(
            f"{path} names sample {unknown}, which the data does not have ({found.null_count} such in all)"
        )
    positions: NDArray[np.int64] = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return positions


def _number_column(path: Path, table: pa.Table) -> str:
    others = [
        name
        for name in table.column_names
        if name != "id" and (pa.types.is_floating(table.schema.field(name).type) or name == "score")
    ]
    if "score" in others or len(others) == 1:
        return "score" if "score" in others else str(others[0])
    raise errors.DataAmbiguous(
        f"{path} has {len(others)} columns of numbers ({', '.join(table.column_names)}); call the right one 'score'"
    )


def _table(path: Path, forms: str) -> pa.Table:
    if path.suffix not in (".parquet", ".csv"):
        raise errors.FileUnreadable(f"{path} is not {forms}")
    check_regular(path)
    try:
        found = read_parquet(path) if path.suffix == ".parquet" else pv.read_csv(path)
    except (OSError, UnicodeDecodeError, pa.ArrowException) as problem:
        raise errors.FileUnreadable(f"{path} cannot be read: {problem}") from problem
    check_once(found.column_names, str(path))
    return found


def _array(path: Path, what: str) -> Array:
    return np.array(read_npy(path, what))


def _text(path: Path) -> str:
    return read_text(path)


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise errors.SettingInvalid(f"{name!r} is not a valid name; use letters, digits, dots, dashes and underscores")
    if name in methods() or name in (FULL, *BASELINES):
        raise errors.NameTaken(f"{name!r} is a name of moso's own; use another name")


def _own_names(job: Job) -> list[str]:
    home = job.directory.of_seed(job.configuration, job.configuration.seed)
    names = (path.stem for path in (home / "scores").glob("*.json"))
    return sorted(name for name in names if score_note(home, name).get("own"))


def _is_there(*_: object) -> Array:
    raise AssertionError("what the user brought lies in the run and is not computed")
