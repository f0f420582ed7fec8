"""Labels from a file, in place of the data set's own: `--labels FILE[:KEY]`.

- `.npz`: KEY is the array, and may be omitted if there is only one; `.npy` has no KEY. Numbers are class indices, text
  is class names.
- `.csv`, `.tsv`, `.txt`: KEY is the column, and may be omitted for a column `label`, for the only column, and for a
  file without a header. Values are class names; if one of them is not, all are class indices.
- `.parquet`: KEY is the column, as for text; numbers are class indices, text is read as in text files.

There is one label per sample, in the order of the data set. A table with a column `id` is matched by id instead: its
rows may be in any order, and it may name some samples only (corrections); the others keep their labels.
"""

import csv
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso import errors
from moso.columns import ARRAY_ERRORS, Array
from moso.data.user_files import read_npy, read_parquet
from moso.errors import MosoError
from moso.files import plain_cell
from moso.tasks.classification import check_labels

# Columns of raw values by name; `None` is the name of the only column of a file without a header.
_Table = dict[str | None, list[Any]]


def read_labels(
    spec: str,
    count: int,
    classes: Sequence[str],
    ids: pa.Array | None = None,
    own: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Read the labels of a file as indices into `classes`.

    Args:
        spec: `FILE` or `FILE:KEY`.
        count: Number of samples.
        classes: Names of the classes.
        ids: Ids of the samples, which the table's `id` column is matched against; without them that column is ignored.
        own: Labels of the source, which samples keep that the table's `id` column does not name; without them, every
            sample must be named.

    Returns:
        Class indices, shape `[count]`.

    Raises:
        FileMissing: There is no such file.
        FileUnreadable: The file cannot be read.
        ColumnMissing: The file has no such array or column.
        DataAmbiguous: The file has several arrays or columns and KEY is missing.
        LengthMismatch: The number of labels is not `count`.
        LabelInvalid: A label is not a class.
        LabelsMissing: A label is missing.
        SampleUnknown: The ids do not match those of the samples.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "labels.csv"
        >>> _ = file.write_text("label\\ndog\\ncat\\n")
        >>> read_labels(str(file), 2, ["cat", "dog"])
        array([1, 0])
    """
    file, key = _split_key(spec)
    values, own_ids = _read(file, key, classes)
    some = own is not None and ids is not None and own_ids is not None
    if not some:
        values = _whole(file, values, own_ids, count, ids)
    try:
        labels = check_labels(_as_numbers(values, classes), len(classes))
    except MosoError as problem:
        raise type(problem)(f"label file {file}: {problem}") from problem
    if own is None or ids is None or own_ids is None:
        return labels
    changed = own.copy()
    changed[_positions(file, own_ids, ids)] = labels
    if len(labels) < count:
        warnings.warn(f"label file {file} names {len(labels)} of {count} samples; the others keep theirs", stacklevel=2)
    return changed


def raw_labels(
    file: Path, count: int, classes: Sequence[str], ids: pa.Array | None = None, key: str | None = None
) -> NDArray[Any]:
    """Read the labels of a file as they are written: numbers, or texts.

    Args:
        file: The file.
        count: Number of samples.
        classes: Names of the classes, as far as they are known; they tell a header from a label.
        ids: Ids of the samples, which the table's `id` column is matched against.
        key: The array or column.

    Returns:
        One label per sample, shape `[count, ...]`.

    Raises:
        MosoError: ``file-unreadable``, ``column-missing``, ``data-ambiguous``, ``length-mismatch``, ``sample-unknown``.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "labels.csv"
        >>> _ = file.write_text("id,label\\n1,dog\\n0,cat\\n")
        >>> raw_labels(file, 2, [], pa.array([0, 1])).tolist()
        ['cat', 'dog']
    """
    values, own_ids = _read(file, key, classes)
    return _whole(file, values, own_ids, count, ids)


def _whole(file: Path, values: Array, own_ids: Array | None, count: int, ids: pa.Array | None) -> Array:
    """Return one label per sample, in the order of the data set."""
    if values.ndim == 0 or len(values) != count:
        found = len(values) if values.ndim else "no"
        raise errors.LengthMismatch(f"label file {file} has {found} labels but the data set has {count} samples")
    return values if own_ids is None or ids is None else values[_order(file, own_ids, ids)]


def _split_key(spec: str) -> tuple[Path, str | None]:
    whole = Path(spec).expanduser()
    if whole.is_file():
        return whole, None
    name, colon, key = spec.rpartition(":")
    file = Path(name).expanduser() if colon else whole
    if not file.is_file():
        raise errors.FileMissing(f"there is no label file {file}")
    return file, key


def _read(file: Path, key: str | None, classes: Sequence[str]) -> tuple[Array, Array | None]:
    """Read the raw labels, and the ids beside them if there are any."""
    suffix = file.suffix.lower()
    try:
        if suffix in (".npz", ".npy"):
            return _read_numpy(file, key), None
        if suffix == ".parquet":
            table: _Table = dict(read_parquet(file).to_pydict())
        elif suffix in (".csv", ".tsv", ".txt"):
            table = _read_text(file, key, classes)
        else:
            raise errors.FileUnreadable(f"label file {file} is none of npz, npy, csv, tsv, txt, parquet")
    except (OSError, ValueError, csv.Error, pa.ArrowException) as problem:
        # An array of Python objects would have to be unpickled, which numpy refuses with a ValueError.
        raise errors.FileUnreadable(f"label file {file} cannot be read: {problem}") from problem
    values = table[_choose(file, [name for name in table if name != "id"], key, "column")]
    try:
        return _array(values), _array(table["id"]) if "id" in table else None
    except (TypeError, ValueError) as problem:
        raise errors.LabelInvalid(f"label file {file} holds neither numbers nor texts ({problem})") from problem


def _read_numpy(file: Path, key: str | None) -> Array:
    if file.suffix.lower() == ".npy":
        if key is not None:
            raise errors.ColumnMissing(f"label file {file} is one array and has no key {key!r}")
        return np.array(read_npy(file, "labels"))
    if not zipfile.is_zipfile(file):
        raise errors.FileUnreadable(f"label file {file} is no archive of arrays, which .npz stands for")
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as loaded:
            array: Array = loaded[_choose(file, list(loaded.files), key, "array")]
            return array
    except MosoError:
        raise
    except ARRAY_ERRORS as problem:
        raise errors.FileUnreadable(f"label file {file} cannot be read: {problem}") from problem


def _read_text(file: Path, key: str | None, classes: Sequence[str]) -> _Table:
    with file.open(encoding="utf-8-sig", newline="") as stream:
        rows = [row for row in csv.reader(stream, delimiter="\t" if file.suffix.lower() == ".tsv" else ",") if row]
    if not rows:
        raise errors.DataEmpty(f"label file {file} is empty")
    header = rows[0]
    for number, row in enumerate(rows):
        if len(row) != len(header):
            raise errors.FileUnreadable(
                f"label file {file} has {len(row)} cells in row {number + 1} where row 1 has {len(header)}"
            )
    if len(header) == 1 and key is None and (header[0] in classes or _is_number(header[0])):
        return {None: [row[0] for row in rows]}
    return {name.strip(): [row[i].strip() for row in rows[1:]] for i, name in enumerate(header)}


def _choose(file: Path, names: Sequence[object], key: str | None, what: str) -> Any:
    if key is not None:
        if key not in names:
            raise errors.ColumnMissing(f"label file {file} has no {what} {key!r}; it has: {', '.join(map(str, names))}")
        return key
    if "label" in names and what == "column":
        return "label"
    if len(names) != 1:
        raise errors.DataAmbiguous(
            f"label file {file} has several {what}s ({', '.join(map(str, names))}); choose one: {file}:{what.upper()}"
            if names
            else f"label file {file} has no {what} of labels"
        )
    return names[0]


def _array(values: Sequence[object]) -> Array:
    """Convert to an array of numbers or of text; missing values become NaN or an empty text."""
    if any(isinstance(value, str) for value in values):
        return np.array(["" if value is None else str(value) for value in values], dtype=np.str_)
    if any(value is None for value in values):
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.asarray(values)


def _order(file: Path, own: Array, ids: pa.Array) -> NDArray[np.int64]:
    """Return the row of the file that belongs to each sample."""
    rows = {value: row for row, value in enumerate(_named(own, ids))}
    order = [rows.get(str(value)) for value in ids.to_pylist()]
    if len(rows) != len(own) or None in order:
        missing = next((value for value in ids.to_pylist() if str(value) not in rows), None)
        found = "names a sample twice" if len(rows) != len(own) else f"does not name sample {missing!r}"
        raise errors.SampleUnknown(
            f"column id of label file {file} {found}; remove the column if rows are in the data's order"
        )
    return np.array(order, dtype=np.int64)


def _positions(file: Path, own: Array, ids: pa.Array) -> NDArray[np.int64]:
    """Return the position of the sample that each row of the file names."""
    places = {str(value): place for place, value in enumerate(ids.to_pylist())}
    named = _named(own, ids)
    strange = next((value for value in named if value not in places), None)
    if strange is not None or len(set(named)) != len(named):
        twice = next((value for value in named if named.count(value) > 1), "") if strange is None else ""
        problem = f"names sample {twice!r} twice" if strange is None else f"names {strange!r}, which is no sample"
        raise errors.SampleUnknown(
            f"column id of label file {file} {problem}; ids are as in scores.parquet, such as {ids[0].as_py()!r}"
        )
    return np.array([places[value] for value in named], dtype=np.int64)


def _named(own: Array, ids: pa.Array) -> list[str]:
    """Return the ids of a file as texts, those that a spreadsheet must not take for formulas as they were."""
    known = set(map(str, ids.to_pylist()))
    return [plain if (plain := plain_cell(text)) in known else text for text in map(str, own.tolist())]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_numbers(values: Array, classes: Sequence[str]) -> Array:
    """Convert text to class indices: by name if all values are class names, as numbers otherwise."""
    if values.dtype.kind != "U" or values.ndim != 1:
        return values
    texts = values.tolist()
    numbers = {name: number for number, name in enumerate(classes)}
    for position, text in enumerate(texts):
        if not text.strip():
            raise errors.LabelsMissing(f"label of sample {position} is missing")
        if text not in numbers and not _is_number(text):
            raise errors.LabelInvalid(f"label {text!r} of sample {position} is neither a class name nor a number")
    if all(text in numbers for text in texts):
        return np.array([numbers[text] for text in texts], dtype=np.int64)
    name = next((text for text in texts if not _is_number(text)), None)
    if name is not None:
        raise errors.LabelInvalid(f"some labels are class names ({name!r}) and some are numbers; use one or the other")
    return np.array([float(text) for text in texts])
