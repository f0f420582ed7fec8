"""`features:DIR`: features that somebody computed before, one row of numbers per sample, memory-mapped.

DIR holds `train.npy` and perhaps `test.npy` (or `validation.npy`, `val.npy`) of shape `[samples, width]`: float16,
float32, or float64, which is rounded to float32 when read. Beside each lie its labels, in the order of its rows:
`train_labels.npy`, or another of the names and suffixes below; numbers are class indices, texts class names.
`train_ids.npy` names the samples, which are row numbers otherwise.
Class names come from `classes.json` (a list, or an object from name to index) or `classes.txt` (one name per line).

`features.json` is what `moso embed` notes about the features. Its `dataset` is the data set that they were computed
from: its pictures or texts, found by id, are shown and exported in place of the numbers.

As unlabelled data, only `train.npy` and `train_ids.npy` are read.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso import errors
from moso.columns import arange
from moso.data.labels import raw_labels
from moso.data.mapped import MappedReader
from moso.data.samples import StoredSamples
from moso.data.sources.source import VECTORS, Opened, Request, Source
from moso.data.sources.tables import read_label_column
from moso.data.user_files import read_npy
from moso.errors import MosoError
from moso.tasks import Classification, Unlabelled, find_task
from moso.tasks.task import unread

NOTE = "features.json"
_TESTS = ("test", "validation", "val")
_LABELS = ("{}_labels", "{}-labels", "{}_label", "{}.labels", "labels_{}", "y_{}")
_IDS = ("{}_ids", "{}-ids")
_LABEL_SUFFIXES = (".npy", ".npz", ".csv", ".tsv", ".txt", ".parquet")
_TYPES = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))


def open_features(request: Request) -> Opened:
    """Open the training and test split of a folder of features.

    Raises:
        DatasetNameInvalid: The path is missing.
        FileMissing: There is no such folder.
        SplitMissing: The folder has no `train.npy`.
        FileUnreadable: A file cannot be read.
        WrongType: Features are no floating-point numbers.
        ShapeMismatch: Features are not one row per sample, or the splits differ in width.
        LengthMismatch: The number of labels or ids is not the number of rows.
        LabelsMissing: A split has no labels.
        ValuesNotFinite: A row has a NaN or infinite value.
        IdsNotUnique: Two samples have the same id.
    """
    if not request.location:
        raise errors.DatasetNameInvalid("data set 'features' needs a folder: features:DIR")
    folder = Path(request.location).expanduser()
    if not folder.is_dir():
        raise errors.FileMissing(f"there is no folder {folder} with features (train.npy, train_labels.npy)")
    if not (folder / "train.npy").is_file():
        raise errors.SplitMissing(f"folder {folder} holds no train.npy, the features of the training samples")
    train = _split(folder, "train", request.task, _class_names(folder))
    if not train.task.has_answers:
        return train, None
    name = next((name for name in _TESTS if (folder / f"{name}.npy").is_file()), None)
    if name is None:
        return train, None
    test = _split(folder, name, request.task, train.classes)
    if test.shape != train.shape:
        raise errors.ShapeMismatch(
            f"{folder / name}.npy has {test.shape[0]} numbers per row and train.npy {train.shape[0]}; "
            "both must come from the same network"
        )
    return train, test


def original_name(name: str) -> str | None:
    """Return the data set that the features of the data set called `name` were computed from, if it is on record.

    Args:
        name: Name of a data set, such as `features:DIR`.

    Raises:
        FileUnreadable: The note beside the features is damaged.

    Example:
        >>> original_name("digits") is None
        True
    """
    scheme, _, location = name.partition(":")
    if scheme != SOURCE.name:
        return None
    noted = read_note(Path(location).expanduser()).get("dataset")
    return str(noted) if noted else None


def read_note(folder: Path) -> dict[str, Any]:
    """Return what is on record about the features in a folder; empty if nothing is.

    Raises:
        FileUnreadable: The note is not a JSON object.
    """
    file = folder / NOTE
    found = _json(file) if file.is_file() else {}
    if not isinstance(found, dict):
        raise errors.FileUnreadable(f"{file} holds no object with notes about the features")
    return found


def _split(folder: Path, name: str, task: str, classes: Sequence[str] | None) -> StoredSamples:
    file = folder / f"{name}.npy"
    inputs = read_array(file)
    check_rows(file, inputs)
    ids = _ids(folder, name, len(inputs))
    if task == Unlabelled.name:
        return StoredSamples(ids, Unlabelled(), unread(len(inputs)), MappedReader(inputs), one_scale=True)
    labels = _beside(folder, name, _LABELS)
    if labels is None:
        raise errors.LabelsMissing(
            f"{file} has no labels beside it; put them into {folder / name}_labels.npy, one per row, in the same "
            "order, or give --unlabelled"
        )
    values = raw_labels(labels, len(inputs), classes or (), ids)
    reader, learned = MappedReader(inputs), find_task(task) if task else Classification()
    if not learned.answers_are_classes:
        try:
            return StoredSamples(ids, *learned.read(values), reader, one_scale=True)
        except MosoError as problem:
            raise type(problem)(f"{labels}: {problem}") from problem
    column = pa.chunked_array([pa.array(_plain(values))])
    answers, names = read_label_column(column, classes or None, str(labels))
    return StoredSamples(ids, Classification(classes=names), answers, reader, one_scale=True)


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return labels as class names or, if all texts are whole numbers, as class indices."""
    if values.dtype.kind == "U" and len(values) and np.char.isdecimal(values).all():
        return values.astype(np.int64)
    return values


def read_array(file: Path) -> NDArray[Any]:
    """Return features as a memory map `[samples, width]`.

    Raises:
        FileUnreadable: The file is no array.
        WrongType: The numbers are not float16, float32 or float64.
        ShapeMismatch: The array is not one row per sample.
        DataEmpty: The array is empty.
    """
    inputs = read_npy(file, "features")
    if inputs.dtype not in _TYPES:
        raise errors.WrongType(f"{file} holds {inputs.dtype}; features are float16, float32 or float64")
    if inputs.ndim != 2:
        raise errors.ShapeMismatch(f"{file} is of shape {inputs.shape}; features are [samples, width]")
    if inputs.size == 0:
        raise errors.DataEmpty(f"{file} is empty: its shape is {inputs.shape}")
    return inputs


def check_rows(file: Path, inputs: NDArray[Any]) -> None:
    """Refuse rows with NaN or infinite values, in float32 where they are float64.

    Raises:
        ValuesNotFinite: With the number of such rows and the first few.
    """
    state = file.stat()
    bad = _bad_rows(str(file), state.st_size, state.st_mtime_ns)
    if bad:
        rows = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
        raise errors.ValuesNotFinite(
            f"{len(bad)} of {len(inputs)} rows of {file} hold NaN or infinite values: row {rows}; "
            "compute them again or remove them with their labels"
        )


# A run opens its data more than once, and a million rows take seconds to look at.
@lru_cache(maxsize=8)
def _bad_rows(file: str, size: int, modified: int) -> tuple[int, ...]:
    inputs = np.load(file, mmap_mode="r", allow_pickle=False)
    # Without its sign, a number's bits read as a whole number grow with the number; infinity and NaN are the highest.
    # float64 is rounded when read, and what float32 cannot hold becomes infinite.
    read_as = np.dtype(np.float32) if inputs.dtype == np.float64 else inputs.dtype
    whole = np.dtype(f"u{read_as.itemsize}")
    unsigned, infinity = whole.type(np.iinfo(whole).max >> 1), np.array(np.inf, read_as).view(whole)
    rows = max(1, 2**22 // inputs.shape[1])
    found: list[int] = []
    for start in range(0, len(inputs), rows):
        with np.errstate(over="ignore"):
            block = inputs[start : start + rows].view(np.ndarray).astype(read_as, copy=False)
        highest = (block.view(whole) & unsigned).max(axis=1)
        found += (start + np.flatnonzero(highest >= infinity)).tolist()
    return tuple(found)


def _ids(folder: Path, name: str, count: int) -> pa.Array:
    file = next(
        (folder / f"{one.format(name)}.npy" for one in _IDS if (folder / f"{one.format(name)}.npy").is_file()), None
    )
    if file is None:
        return pa.array(arange(count))
    found = np.array(read_npy(file, "an array of ids"))
    if found.ndim != 1 or found.dtype.kind not in "iuU":
        raise errors.WrongType(f"{file} holds {found.dtype} of shape {found.shape}; ids are whole numbers or texts")
    if len(found) != count:
        raise errors.LengthMismatch(f"{file} names {len(found)} samples, but {name}.npy has {count} rows")
    if len(np.unique(found)) != len(found):
        raise errors.IdsNotUnique(f"{file} names a sample twice; every row needs an id of its own")
    return pa.array(found.astype(np.int64) if found.dtype.kind != "U" else found)


def _beside(folder: Path, name: str, forms: Sequence[str]) -> Path | None:
    candidates = (folder / f"{form.format(name)}{suffix}" for form in forms for suffix in _LABEL_SUFFIXES)
    return next((file for file in candidates if file.is_file()), None)


def _class_names(folder: Path) -> tuple[str, ...] | None:
    listed = folder / "classes.txt"
    if listed.is_file():
        return tuple(line.strip() for line in listed.read_text(encoding="utf-8").splitlines() if line.strip())
    file = folder / "classes.json"
    if not file.is_file():
        return None
    found = _json(file)
    if isinstance(found, dict) and sorted(found.values(), key=str) == sorted(range(len(found)), key=str):
        found = sorted(found, key=lambda one: found[one])
    elif isinstance(found, dict) and set(found) == set(map(str, range(len(found)))):
        found = [found[str(number)] for number in range(len(found))]
    if not isinstance(found, list) or not all(isinstance(one, str | int) for one in found):
        raise errors.FileUnreadable(f"{file} is neither a list of class names nor an object from name to index")
    return tuple(map(str, found))


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise errors.FileUnreadable(f"{file} cannot be read as JSON: {problem}") from problem


SOURCE = Source(
    "features:DIR",
    "features computed before: train.npy and test.npy (float16, float32 or float64, one row per sample), labels beside "
    "them in train_labels.npy and test_labels.npy (or .csv)",
    open_features,
    fits=VECTORS,
    pictures=False,
    vectors=True,
    unlabelled=True,
)
