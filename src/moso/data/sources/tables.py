"""A table's columns as samples: which one is the answer, which ones are the input.

The answer is a class (`label`), or a number or a list of numbers where the user says so (`?target=COLUMN`).

Two kinds of input: one column of encoded images (Hugging Face's `Image` layout, `struct<bytes, path>`, or plain
binary), or numeric columns and lists of numbers, which are joined to one vector of features.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from moso import errors
from moso.columns import arange, empty_column
from moso.data.images import Column, EncodedReader, Names
from moso.data.readers import Reader
from moso.data.samples import StoredSamples, check_labels, check_targets
from moso.errors import MosoError

LABEL_NAMES = ("label", "labels", "target", "fine_label")
# Columns that number the rows; a network must not learn from them.
_ROW_NAMES = ("id", "index", "__index_level_0__")


@dataclass(frozen=True)
class Columns:
    """The columns that matter: the answer (a class, or else `numbers`), and either an image or features."""

    label: str
    image: str | None
    features: tuple[str, ...] = ()
    numbers: bool = False

    def all(self) -> list[str]:
        """Every column to be read."""
        return [self.label, self.image] if self.image is not None else [self.label, *self.features]


def choose_columns(schema: pa.Schema, options: Mapping[str, str], described: Mapping[str, Any], where: str) -> Columns:
    """The columns the options name, or else the ones that look right.

    `described` is Hugging Face's description of the columns, if there is one.

    >>> schema = pa.schema({"x": pa.float32(), "y": pa.float32(), "id": pa.int64(), "label": pa.int64()})
    >>> choose_columns(schema, {}, {}, "points.parquet").features
    ('x', 'y')
    """
    named = [options[name] for name in ("label", "target", "image") if name in options]
    for column in [*named, *_listed(options)]:
        if column not in schema.names:
            raise errors.ColumnMissing(f"{where} has no column {column!r}; it has: {', '.join(schema.names)}")
    label, numbers = choose_answer(schema.names, options, where)
    if "features" in options:
        return Columns(label, None, _listed(options), numbers)
    image = options.get("image") or _image_column(schema, described, where)
    if image is not None:
        if not _holds_images(schema.field(image).type):
            raise errors.ColumnType(f"column {image!r} of {where} holds {schema.field(image).type}, not encoded images")
        return Columns(label, image, numbers=numbers)
    return Columns(label, None, _feature_columns(schema, label, described, where), numbers)


def choose_answer(names: Sequence[str], options: Mapping[str, str], where: str) -> tuple[str, bool]:
    """The column with the answers, and whether they are numbers to predict and not classes.

    >>> choose_answer(["text", "target"], {}, "a.csv"), choose_answer(["text", "price"], {"target": "price"}, "b.csv")
    (('target', False), ('price', True))
    """
    if "target" in options:
        return options["target"], True
    label = options.get("label") or next((name for name in LABEL_NAMES if name in names), None)
    if label is None:
        raise errors.ColumnMissing(
            f"{where} has no column {', '.join(LABEL_NAMES[:-1])} or {LABEL_NAMES[-1]}; name one of its columns "
            f"({', '.join(names)}) as the label, with ?label=COLUMN, or as a number to predict, with ?target=COLUMN"
        )
    return label, False


def _listed(options: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in options.get("features", "").split(",") if name)


def _holds_images(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return bool(kind.get_field_index("bytes") >= 0)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _image_column(schema: pa.Schema, described: Mapping[str, Any], where: str) -> str | None:
    found = [name for name in schema.names if _is_described(described, name, "Image")]
    found = found or [name for name in schema.names if _holds_images(schema.field(name).type)]
    if len(found) > 1:
        raise errors.DataAmbiguous(
            f"{where} has several columns of images ({', '.join(found)}); choose one with ?image=COLUMN"
        )
    return found[0] if found else None


def _is_described(described: Mapping[str, Any], name: str, kind: str) -> bool:
    description = described.get(name)
    return isinstance(description, Mapping) and description.get("_type") == kind


def _feature_columns(schema: pa.Schema, label: str, described: Mapping[str, Any], where: str) -> tuple[str, ...]:
    features = []
    for field in schema:
        # Another label ("coarse_label") would give the answer away.
        is_label = field.name == label or field.name in LABEL_NAMES or field.name.endswith("_label")
        if is_label or field.name in _ROW_NAMES or _is_described(described, field.name, "ClassLabel"):
            continue
        if not _is_numeric(field.type):
            raise errors.ColumnType(
                f"column {field.name!r} of {where} holds {field.type}, neither images nor numbers; "
                "name the columns to learn from with ?image=COLUMN or ?features=COLUMN,COLUMN, or open it as text:PATH"
            )
        features.append(field.name)
    if not features:
        raise errors.ColumnMissing(f"{where} has no column to learn from beside the label {label!r}")
    return tuple(features)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_numeric(kind: pa.DataType) -> bool:
    while _is_list(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def class_names(described: Mapping[str, Any], label: str) -> tuple[str, ...] | None:
    """The names that Hugging Face's description gives the classes, if any.

    >>> class_names({"label": {"_type": "ClassLabel", "names": ["cat", "dog"]}}, "label")
    ('cat', 'dog')
    """
    return tuple(described[label]["names"]) if _is_described(described, label, "ClassLabel") else None


def check_same_classes(train: Sequence[str], test: Sequence[str] | None, where: str) -> None:
    """Refuse a test split that numbers its classes in another way than the training split."""
    if test is not None and tuple(test) != tuple(train):
        raise errors.ClassesMismatch(
            f"the classes of {where} ({_few(test)}) are not those of the training data ({_few(train)})"
        )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f", ... {len(names)} in all" if len(names) > 5 else "")


def is_labelled(column: pa.ChunkedArray) -> bool:
    """Whether there are labels at all: a test split for a competition has none, or only -1.

    >>> is_labelled(pa.chunked_array([[-1, -1]])), is_labelled(pa.chunked_array([[0, 1]]))
    (False, True)
    """
    if column.null_count == len(column):
        return False
    return not (pa.types.is_integer(column.type) and bool((column.drop_null().to_numpy() == -1).all()))


def read_label_column(
    column: pa.ChunkedArray, classes: Sequence[str] | None, where: str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class indices and class names; text is looked up in `classes`, or sorted where there are none.

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
    if not _is_numeric(column.type) or _is_list(column.type):
        raise errors.LabelInvalid(f"labels in {where} are {column.type}; expected whole numbers or class names")
    try:
        labels = check_labels(_as_array(column), None if classes is None else len(classes))
    except MosoError as problem:
        hint = "; if they are numbers to predict, name the column with ?target=COLUMN"
        raise type(problem)(f"{where}: {problem}{hint if pa.types.is_floating(column.type) else ''}") from problem
    if classes is not None:
        return labels, tuple(classes)
    return labels, tuple(str(number) for number in range(int(labels.max(initial=-1)) + 1))


def _as_array(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column without missing values, chunk by chunk."""
    found, filled = empty_column(len(column), column.type.to_pandas_dtype()), 0
    for chunk in column.chunks:
        found[filled : filled + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
        filled += len(chunk)
    return found


def table_samples(
    table: pa.Table, columns: Columns, classes: Sequence[str] | None, where: str, resize: int | None
) -> StoredSamples:
    """The rows of a table as samples; ids are row numbers."""
    if table.num_rows == 0:
        raise errors.DataEmpty(f"{where} has no rows")
    labels, names, numbers = _answers(table, columns, classes, where)
    if columns.image is None:
        features = features_of(table, columns.features, where).astype(np.float32, copy=False)
        if numbers is not None:
            return StoredSamples.from_arrays(features, targets=numbers)
        return StoredSamples.from_arrays(features, labels, names)
    ids = pa.array(np.arange(table.num_rows))
    images = table[columns.image]
    if pa.types.is_struct(images.type):
        paths = pc.struct_field(images, "path") if images.type.get_field_index("path") >= 0 else None
        encoded = Column(pc.struct_field(images, "bytes"), paths)
    else:
        encoded = Column(images)
    reader = EncodedReader.measured(encoded, Names(ids, f"{where} row "), table.num_rows, resize)
    return StoredSamples(ids, labels, names, reader, targets=numbers)


def numbered_samples(
    answers: pa.Table, columns: Columns, classes: Sequence[str] | None, where: str, reader: Reader
) -> StoredSamples:
    """Rows whose numbers are in a reader already; `answers` has the label alone."""
    if answers.num_rows == 0:
        raise errors.DataEmpty(f"{where} has no rows")
    labels, names, numbers = _answers(answers, columns, classes, where)
    return StoredSamples(pa.array(arange(len(labels))), labels, names, reader, targets=numbers)


def _answers(
    table: pa.Table, columns: Columns, classes: Sequence[str] | None, where: str
) -> tuple[NDArray[np.int64], tuple[str, ...], NDArray[np.float32] | None]:
    """Class indices and names, and numbers to predict where the answers are such."""
    column = table[columns.label]
    if columns.numbers:
        targets = read_target_column(column, f"column {columns.label!r} of {where}")
        return np.zeros(table.num_rows, dtype=np.int64), (), targets
    return *read_label_column(column, classes, where), None


def read_target_column(column: pa.ChunkedArray, where: str) -> NDArray[np.float32]:
    """Numbers to predict: one a row, or a list of equal length in every row.

    >>> read_target_column(pa.chunked_array([[1.5, 2.0]]), "prices")
    array([1.5, 2. ], dtype=float32)
    """
    if not _is_numeric(column.type):
        raise errors.ColumnType(f"{where} holds {column.type}, not numbers to predict")
    try:
        return check_targets(_numbers(column, where))
    except MosoError as problem:
        raise type(problem)(f"{where}: {problem}") from problem


def features_of(table: pa.Table, features: Sequence[str], where: str) -> NDArray[Any]:
    """Numeric columns side by side, one row a sample: bytes where all are bytes, float32 otherwise."""
    arrays = [_numbers(table[name], f"column {name!r} of {where}") for name in features]
    if len(arrays) == 1 and arrays[0].ndim > 1:
        return arrays[0]
    return np.concatenate([array.reshape(table.num_rows, -1) for array in arrays], axis=1)


def _numbers(column: pa.ChunkedArray, where: str) -> NDArray[Any]:
    """Numbers `[n]`, or lists of equal length `[n, length]`, nested to any depth; missing ones become NaN."""
    shape = [len(column)]
    while _is_list(column.type):
        lengths = pc.unique(pc.list_value_length(column)).to_pylist()
        if len(lengths) != 1 or lengths[0] is None:
            raise errors.ShapeMismatch(
                f"{where} holds lists of unequal length; features must be equally many in every row"
            )
        shape.append(lengths[0])
        column = pc.list_flatten(column)
    if pa.types.is_uint8(column.type) and not column.null_count:
        whole: NDArray[Any] = column.to_numpy().reshape(shape)
        return whole
    numbers: NDArray[Any] = column.cast(pa.float64(), safe=False).to_numpy()
    return numbers.astype(np.float32).reshape(shape)
