"""Columns of a table as samples: class names and numbers become answers, images and numbers become inputs.

Which column has which role is decided in `table_columns.py`.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from moso import errors
from moso.columns import Array, arange, empty_column
from moso.data.images import Column, EncodedReader, Names
from moso.data.readers import Reader
from moso.data.samples import StoredSamples
from moso.data.sources.table_columns import Columns, is_list, is_numeric
from moso.errors import MosoError
from moso.tasks import Task
from moso.tasks.classification import check_labels, numbered_classes
from moso.tasks.task import Answers, unread


def check_same_classes(train: Sequence[str], test: Sequence[str] | None, where: str) -> None:
    """Refuse a test split whose classes or their order differ from the training split's.

    Raises:
        ClassesMismatch: They differ.
    """
    if test is not None and tuple(test) != tuple(train):
        raise errors.ClassesMismatch(
            f"the classes of {where} ({_few(test)}) are not those of the training data ({_few(train)})"
        )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f", ... {len(names)} in all" if len(names) > 5 else "")


def is_labelled(column: pa.ChunkedArray) -> bool:
    """Return whether a column has labels: the test split of a competition has none, or only -1.

    Example:
        >>> is_labelled(pa.chunked_array([[-1, -1]])), is_labelled(pa.chunked_array([[0, 1]]))
        (False, True)
    """
    if column.null_count == len(column):
        return False
    return not (pa.types.is_integer(column.type) and bool((column.drop_null().to_numpy() == -1).all()))


def read_label_column(
    column: pa.ChunkedArray, classes: Sequence[str] | None, where: str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return class indices `[n]` and class names.

    Args:
        column: Class indices or class names.
        classes: Known class names; by default the sorted names or the numbers that occur.
        where: Name of the table in errors.

    Raises:
        LabelsMissing: A label is missing.
        ClassesMismatch: A label is not a known class.
        LabelInvalid: A label is neither a whole number nor a name.

    Example:
        >>> read_label_column(pa.chunked_array([["dog", "cat", "dog"]]), None, "pets.parquet")
        (array([1, 0, 1]), ('cat', 'dog'))
    """
    if column.null_count:
        first = pc.index(pc.is_null(column), True).as_py()
        raise errors.LabelsMissing(
            f"label of row {first} in {where} is missing ({column.null_count} are missing in all)"
        )
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        names = tuple(classes) if classes is not None else tuple(sorted(pc.unique(column).to_pylist()))
        indices = pc.index_in(column, pa.array(names, type=column.type))
        if indices.null_count:
            stranger = column[pc.index(pc.is_null(indices), True).as_py()]
            raise errors.ClassesMismatch(
                f"label {str(stranger)!r} in {where} is none of the {len(names)} known classes"
            )
        return indices.to_numpy().astype(np.int64), names
    if not is_numeric(column.type) or is_list(column.type):
        raise errors.LabelInvalid(f"labels in {where} are {column.type}; expected whole numbers or class names")
    try:
        labels = check_labels(_as_array(column), None if classes is None else len(classes))
    except MosoError as problem:
        hint = "; if they are numbers to predict, name the column with ?target=COLUMN"
        raise type(problem)(f"{where}: {problem}{hint if pa.types.is_floating(column.type) else ''}") from problem
    if classes is not None:
        return labels, tuple(classes)
    return labels, numbered_classes(labels, where)


def _as_array(column: pa.ChunkedArray) -> Array:
    """Convert a column without missing values, chunk by chunk."""
    found, filled = empty_column(len(column), column.type.to_pandas_dtype()), 0
    for chunk in column.chunks:
        found[filled : filled + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
        filled += len(chunk)
    return found


def table_samples(
    table: pa.Table,
    columns: Columns,
    classes: Sequence[str] | None,
    where: str,
    resize: int | None,
    folder: Path | None = None,
) -> StoredSamples:
    """Return the rows of a table as samples; ids are row numbers.

    Args:
        table: The columns to read.
        columns: Roles of the columns.
        classes: Known class names, if any.
        where: Name of the table in errors.
        resize: Side in pixels to which images are scaled and cropped.
        folder: Folder of the data set, in which paths of images must lie; None for tables that the package `datasets`
            has made itself.

    Raises:
        DataEmpty: The table has no rows.
        FileUnsafe: The path of an image leads out of the folder.
    """
    if table.num_rows == 0:
        raise errors.DataEmpty(f"{where} has no rows")
    task, targets = _answers(table, columns, classes, where)
    if columns.image is None:
        features = features_of(table, columns.features, where).astype(np.float32, copy=False)
        return StoredSamples.from_arrays(features, targets, task)
    ids = pa.array(np.arange(table.num_rows))
    reader = image_reader(table[columns.image], where, resize, folder)
    return StoredSamples(ids, task, targets, reader)


def image_reader(
    images: pa.ChunkedArray, where: str, resize: int | None = None, folder: Path | None = None
) -> EncodedReader:
    """Return the reader of a column of encoded images, bytes or structs of bytes and path.

    Args:
        images: The column.
        where: Name of the table in errors.
        resize: Side in pixels to which images are scaled and cropped.
        folder: Folder in which paths of images must lie; None for any.

    Raises:
        FileUnsafe: A path leads out of the folder.
    """
    if pa.types.is_struct(images.type):
        paths = pc.struct_field(images, "path") if images.type.get_field_index("path") >= 0 else None
        encoded = Column(pc.struct_field(images, "bytes"), paths, folder)
        _check_inside(encoded, where)
    else:
        encoded = Column(images)
    names = Names(pa.array(np.arange(len(images))), f"{where} row ")
    return EncodedReader.measured(encoded, names, len(images), resize)


def _check_inside(encoded: Column, where: str) -> None:
    """Refuse a table whose images without bytes are files outside of its folder."""
    if encoded.folder is None or encoded.paths is None:
        return
    root = encoded.folder.resolve()
    named = encoded.paths.filter(pc.and_(pc.is_null(encoded.values), pc.is_valid(encoded.paths)))
    for path in pc.unique(named).to_pylist():
        whole = (root / path).resolve()
        if not whole.is_relative_to(root):
            raise errors.FileUnsafe(f"{where} names an image {path!r} outside of its folder; it was not opened")


def numbered_samples(
    answers: pa.Table, columns: Columns, classes: Sequence[str] | None, where: str, reader: Reader
) -> StoredSamples:
    """Return rows as samples whose inputs are already in a reader; `answers` holds only the label column.

    Raises:
        DataEmpty: The table has no rows.
    """
    if answers.num_rows == 0:
        raise errors.DataEmpty(f"{where} has no rows")
    task, targets = _answers(answers, columns, classes, where)
    return StoredSamples(pa.array(arange(len(targets))), task, targets, reader)


def _answers(table: pa.Table, columns: Columns, classes: Sequence[str] | None, where: str) -> tuple[Task, Answers]:
    """Return the task, which now knows its classes or width, and the answers."""
    if not columns.task.has_answers:
        return columns.task, unread(table.num_rows)
    column = table[columns.label]
    if columns.task.answers_are_classes:
        labels, names = read_label_column(column, classes, where)
        return replace(columns.task, classes=names), labels
    where = f"column {columns.label!r} of {where}"
    if not is_numeric(column.type):
        raise errors.ColumnType(f"{where} holds {column.type}, not numbers to predict")
    try:
        return columns.task.read(_numbers(column, where))
    except MosoError as problem:
        raise type(problem)(f"{where}: {problem}") from problem


def features_of(table: pa.Table, features: Sequence[str], where: str) -> Array:
    """Concatenate numeric columns, one row per sample: uint8 if all are uint8, float32 otherwise.

    Raises:
        ShapeMismatch: A column holds lists of unequal length.
    """
    arrays = [_numbers(table[name], f"column {name!r} of {where}") for name in features]
    if len(arrays) == 1 and arrays[0].ndim > 1:
        return arrays[0]
    return np.concatenate([array.reshape(table.num_rows, -1) for array in arrays], axis=1)


def _numbers(column: pa.ChunkedArray, where: str) -> Array:
    """Convert to numbers `[n]`, or lists of equal length `[n, length]`, nested to any depth; missing ones are NaN."""
    shape = [len(column)]
    while is_list(column.type):
        lengths = pc.unique(pc.list_value_length(column)).to_pylist()
        if len(lengths) != 1 or lengths[0] is None:
            raise errors.ShapeMismatch(
                f"{where} holds lists of unequal length; features must be equally many in every row"
            )
        shape.append(lengths[0])
        column = pc.list_flatten(column)
    if not column.null_count and (pa.types.is_uint8(column.type) or pa.types.is_float32(column.type)):
        whole: Array = column.to_numpy().reshape(shape)
        return whole
    numbers: Array = column.cast(pa.float64(), safe=False).to_numpy()
    return numbers.astype(np.float32).reshape(shape)
