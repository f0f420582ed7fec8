"""`moso export`: the kept samples of a selection for other programs, as indices or as the pruned data itself.

Indices: `csv` and `parquet` have one row per kept sample (id, position, label, the weight if the selection has weights,
and in Parquet the score of the method), `npy` has the positions as int64, or the ids. Data: `parquet-data`
(`as_parquet.py`), `folder` (`as_folder.py`), `text` (`as_text.py`) and `shards` (`as_shards.py`).

Labels are those that were trained on, including replaced and noisy ones. Writes are atomic: to a temporary name in the
same folder, which is then renamed.
"""

import csv
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from moso import errors
from moso.configuration import CUSTOM
from moso.data.sources.features_folder import original_name
from moso.data.sources.text_files import SUFFIXES
from moso.errors import unknown_name
from moso.export.as_folder import write_image_folder
from moso.export.as_parquet import write_parquet
from moso.export.as_shards import write_shards
from moso.export.as_text import text_file, write_texts
from moso.export.split import Split, check_unchanged
from moso.files import replacing, safe_cell, sweep_dead, temporary_path, write_json, write_table
from moso.progress import Progress, silent
from moso.results.originals import Originals
from moso.results.overrides import overrides_digest
from moso.results.reading import Run
from moso.results.selections import Selection, read_kept
from moso.selection import Kept

_INDICES = ("csv", "npy", "parquet")
FORMATS = (*_INDICES, "parquet-data", "folder", "text", "shards")
# Suffixes that imply format `text`; .csv and .parquet are indices unless the format says otherwise.
_TEXT_SUFFIXES = (".txt", ".label", ".tsv", ".jsonl")
# A folder is overwritten only if it contains this file, which shows that it is an earlier export.
_MARKER = ".moso-export.json"
# Formats without a place for weights.
_UNWEIGHTED = ("npy", "text")


@dataclass(frozen=True)
class Exported:
    """The result of an export: the path, the selection, the number of kept samples, and what the format left out."""

    path: Path
    selection: Selection
    samples: int
    note: str = ""


def export_kept(
    run: Run,
    out: Path | str,
    *,
    method: str | None = None,
    selector: str | None = None,
    ratio: float | None = None,
    seed: int | None = None,
    overrides: Path | None = None,
    form: str | None = None,
    ids: bool = False,
    with_test: bool = False,
    link: bool = False,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Exported:
    """Write the kept samples of a selection.

    Method, selector and ratio may be left out if only one selection of the run matches.

    Args:
        run: The run.
        out: File or folder to write.
        method: Name of the method.
        selector: Name of the selector.
        ratio: Share of samples removed.
        seed: Seed of the selection; None is the first seed.
        overrides: File of manual decisions with which the selection was made.
        form: One of `FORMATS`; None takes it from the suffix of `out`.
        ids: Write ids instead of positions; `npy` only.
        with_test: Write the test split as well; not for indices.
        link: Make symbolic links instead of copies; `folder` only.
        overwrite: Replace an earlier export.
        progress: Called as work advances.

    Raises:
        MosoError: ``selection-ambiguous``, ``unknown-name``, ``settings-conflict``, ``output-invalid``,
            ``output-exists``, ``data-in-memory``, ``data-changed``, ``pictures-required``.

    Example:
        >>> import moso, tempfile
        >>> images, labels = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype("uint8"), np.arange(40) % 2
        >>> pruned = moso.prune((images, labels), ratio=0.7, model="mlp-w8", recipe="quick", time_steps=2, partitions=1)
        >>> exported = export_kept(pruned.run, Path(tempfile.mkdtemp()) / "kept.npy")
        >>> bool((np.load(exported.path) == pruned.kept).all())
        True
    """
    target = Path(out)
    # What leaves a run are the pictures or texts themselves, where features of them were pruned.
    dataset = original_name(run.configuration.dataset) or run.configuration.dataset
    form = _form(target, form, dataset)
    _check_options(form, ids, with_test, link)
    if seed is not None:
        run.known_seed(seed)
    by_hand = "" if overrides is None else overrides_digest(overrides)
    selection = run.selection(method, ratio, selector, seed, by_hand)
    kept = read_kept(run.directory.root, selection)
    exported = Exported(target, selection, len(kept), _left_out(form, kept))
    if form in _INDICES:
        with _file(target, overwrite) as temporary:
            _write_indices(run, selection, kept, form, ids, temporary)
        return exported

    suffix = text_file(dataset).suffix if form == "text" else ".parquet"
    splits = _splits(run, kept, with_test)
    if form == "text" and target.suffix.lower() in set(SUFFIXES) - {suffix.lower()}:
        raise errors.OutputInvalid(f"the texts come from a {suffix} file and stay one: end {target.name} in {suffix}")
    if form not in ("folder", "shards") and target.suffix.lower() == suffix.lower():
        if with_test:
            raise errors.OutputInvalid(
                f"--with-test writes train{suffix} and test{suffix}: give a folder instead of {target}"
            )
        with _file(target, overwrite) as temporary:
            _write_split(form, "train", splits["train"], dataset, temporary, progress)
        return exported
    _check_outside(dataset, target)
    with _folder(target, overwrite) as temporary:
        if form == "folder":
            write_image_folder(splits, temporary, link, progress)
        elif form == "shards":
            for name, split in splits.items():
                write_shards(split, name, temporary, progress)
        else:
            for name, split in splits.items():
                own = text_file(dataset, test=name == "test").suffix if form == "text" else suffix
                _write_split(form, name, split, dataset, temporary / f"{name}{own}", progress)
        write_json(temporary / _MARKER, {"dataset": run.configuration.dataset, **asdict(selection)})
    return exported


def _write_split(form: str, name: str, split: Split, dataset: str, path: Path, progress: Progress) -> None:
    if form == "text":
        write_texts(split, dataset, path, progress, test=name == "test")
    else:
        write_parquet(split, dataset, path, progress)


def _form(target: Path, form: str | None, dataset: str) -> str:
    if form is None:
        suffix = target.suffix.lower()
        texts = suffix in _TEXT_SUFFIXES and dataset.startswith("text:")
        form = "text" if texts else suffix.removeprefix(".")
        if form not in (*_INDICES, "text"):
            raise errors.OutputInvalid(
                f"the name {target.name} does not say what to write; end it in .csv, .npy or .parquet, "
                "or give --format parquet-data, folder, text or shards"
            )
    if form not in FORMATS:
        raise unknown_name("format", form, FORMATS)
    return form


def _check_options(form: str, ids: bool, with_test: bool, link: bool) -> None:
    if ids and form != "npy":
        raise errors.SettingsConflict(f"--ids belongs to npy; format {form} has the ids anyway")
    if with_test and form in _INDICES:
        raise errors.SettingsConflict(
            f"--with-test belongs to parquet-data, folder, text and shards; format {form} lists training samples"
        )
    if link and form != "folder":
        raise errors.SettingsConflict(f"--link belongs to format folder, not to {form}")


def _left_out(form: str, kept: Kept) -> str:
    """Return one sentence about weights that a format has no place for; empty if there are none."""
    if kept.weights is None or form not in _UNWEIGHTED:
        return ""
    return f"the selection has weights, which format {form} has no place for; csv, parquet and parquet-data have one"


def _write_indices(run: Run, selection: Selection, kept: Kept, form: str, ids: bool, path: Path) -> None:
    table, positions = run.table(selection.seed), kept.positions
    if form == "npy":
        column = table["id"].to_numpy()[positions] if ids else positions
        with path.open("wb") as file:
            # Texts become fixed-width texts, because an array of objects would have to be pickled.
            np.save(file, column.astype(np.str_) if column.dtype == object else column, allow_pickle=False)
        return
    rows = table.select(["id", "label"]).take(pa.array(positions)).add_column(1, "position", pa.array(positions))
    if kept.weights is not None:
        rows = rows.append_column("weight", pa.array(kept.weights))
    if form == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(rows.column_names)
            cells = zip(*(column.to_pylist() for column in rows.columns), strict=True)
            writer.writerows(map(safe_cell, row) for row in cells)
        return
    scores = run.score_of(selection.method, selection.seed)
    if scores is not None:
        rows = rows.append_column("score", pa.array(scores[positions]))
    write_table(path, rows.replace_schema_metadata({"moso": json.dumps(asdict(selection))}))


def _splits(run: Run, kept: Kept, with_test: bool) -> dict[str, Split]:
    if run.configuration.dataset == CUSTOM:
        raise errors.DataInMemory(
            f"{run.directory} was made from data in memory, which only its maker has; "
            "export indices (csv, npy, parquet) and take them from it"
        )
    train = run.samples("train")
    check_unchanged(run, train, "train")
    splits = {"train": Split(train, Originals.open(run.configuration), kept.positions, kept.weights)}
    if with_test:
        test = run.samples("test")
        check_unchanged(run, test, "test")
        splits["test"] = Split(test, Originals.open(run.configuration, test=True), np.arange(len(test)))
    return splits


def _check_outside(dataset: str, target: Path) -> None:
    scheme, _, place = dataset.partition(":")
    if scheme == "folder" and target.resolve().is_relative_to(Path(place).expanduser().resolve()):
        raise errors.OutputInvalid(
            f"{target} is inside the data it is made from, which would gain a class; choose another place"
        )


@contextmanager
def _file(target: Path, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary path and rename it to the file `target` at the end."""
    if target.is_dir():
        raise errors.OutputInvalid(f"{target} is a folder; a file is to be written there")
    if target.exists() and not overwrite:
        raise errors.OutputExists(f"{target} is there already; give --overwrite to replace it")
    with replacing(target) as temporary:
        sweep_dead(target.parent, target.name)
        yield temporary


@contextmanager
def _folder(target: Path, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary folder and rename it to `target` at the end; an earlier folder is removed only after that."""
    if target.exists():
        if not target.is_dir():
            raise errors.OutputInvalid(f"{target} is a file; a folder is to be written there")
        if any(target.iterdir()):
            if not overwrite:
                raise errors.OutputExists(f"{target} is there already; give --overwrite to replace it")
            if not (target / _MARKER).is_file():
                raise errors.OutputExists(
                    f"{target} was not written by moso export and is not overwritten; remove it yourself"
                )
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():  # otherwise a kill between two renames may have left the earlier folder under another name
        sweep_dead(target.parent, target.name)
    temporary, old = temporary_path(target), temporary_path(target)
    temporary.mkdir()
    try:
        yield temporary
        if target.exists():
            target.rename(old)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
            sweep_dead(target.parent, target.name)
        elif old.exists():
            old.rename(target)
